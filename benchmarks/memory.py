"""Memory over many calls of ``generate()`` on one attached model: it must not grow.

    python benchmarks/memory.py [--calls 10000]

A tiny random BART, a T5 and a Llama with a rule on its prompt, in turn; sources and prompts of
changing lengths. Prints the resident memory of the process as it goes.
"""

import argparse
import random
from pathlib import Path

import torch
import transformers as hf

import dwindle

VOCABULARY = 40


def resident() -> float:
    """Of this process, in MB."""
    line = next(
        x
        for x in Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        if x.startswith("VmRSS")
    )
    return int(line.split()[1]) / 1024


def models() -> dict[str, hf.PreTrainedModel]:
    small = {"vocab_size": VOCABULARY, "d_model": 32}
    heads = {
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
    }
    bart = hf.BartForConditionalGeneration(
        hf.BartConfig(**small, **heads, encoder_layers=1, decoder_layers=2)
    )
    t5 = hf.T5ForConditionalGeneration(
        hf.T5Config(**small, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)
    )
    llama = hf.LlamaForCausalLM(
        hf.LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
        )
    )
    dwindle.attach(bart, "training-free")
    dwindle.attach(t5, "dydim:log,power(0.5)")
    dwindle.attach(llama, "dim:log", source="prompt")
    return {
        "BART, training-free, beam 2": bart,
        "T5, DyDim, beam 2": t5,
        "Llama, Dim on the prompt": llama,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10000)
    calls = parser.parse_args().calls
    torch.manual_seed(0)
    chosen, draw = models(), random.Random(0)
    print(f"{'calls':>6} {'MB':>8}")
    for call in range(calls + 1):
        if call % max(1, calls // 10) == 0:
            print(f"{call:6} {resident():8.1f}", flush=True)
        name = list(chosen)[call % len(chosen)]
        ids = torch.randint(4, VOCABULARY, (draw.randint(1, 3), draw.randint(3, 12)))
        with torch.no_grad():
            chosen[name].eval().generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                num_beams=1 if "Llama" in name else 2,
                max_new_tokens=6,
                do_sample=False,
            )


if __name__ == "__main__":
    main()
