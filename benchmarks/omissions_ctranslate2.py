"""Attention rows of CTranslate2 in place of our own pass: the same scores, from the engine that
translates.

    python benchmarks/omissions_ctranslate2.py MODEL LISTENERS SOURCES OUT

MODEL is a Marian folder, LISTENERS its listeners, SOURCES lines of text. CTranslate2 returns the
attention of the first heads of one layer, the last layer's first head unless the converted model
says otherwise. So a listener is moved to the front of its layer, which changes no output, and the
model is converted to say that layer. Needs ``ctranslate2``. Prints how far the scores are from our
own.
"""

import dataclasses
import sys
from pathlib import Path

import ctranslate2
import numpy as np
import torch
from ctranslate2.converters import TransformersConverter
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import dwindle
from dwindle.auditing.heads import peaks
from dwindle.auditing.text import TextReader


def to_the_front(model, layer: int, head: int) -> None:
    """Swap a head with the first of its layer."""
    module = model.get_decoder().layers[layer].encoder_attn
    order = torch.arange(module.num_heads)
    order[[0, head]] = order[[head, 0]]
    rows = (order[:, None] * module.head_dim + torch.arange(module.head_dim)).flatten()
    with torch.no_grad():
        for projection in (module.q_proj, module.k_proj, module.v_proj):
            projection.weight.copy_(projection.weight[rows])
            projection.bias.copy_(projection.bias[rows])
        module.out_proj.weight.copy_(module.out_proj.weight[:, rows])


class Converter(TransformersConverter):
    """Says in the converted model which layer's first head to return."""

    def __init__(self, folder: str, layer: int) -> None:
        super().__init__(folder)
        self.layer = layer

    def _load(self):
        spec = super()._load()
        spec.decoder.alignment_layer = np.int16(self.layer)
        spec.decoder.alignment_heads = np.int16(1)
        return spec


def main(folder: str, listeners: str, lines: str, out: str) -> None:
    torch.set_num_threads(1)
    chosen = dwindle.Listeners.load(listeners)
    layer, head = chosen.heads[0]
    alone = dataclasses.replace(chosen, heads=((layer, 0),))
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    to_the_front(model, layer, head)
    model.save_pretrained(Path(out) / "swapped")
    tokenizer.save_pretrained(Path(out) / "swapped")
    Converter(str(Path(out) / "swapped"), layer).convert(str(Path(out) / "converted"), force=True)
    engine = ctranslate2.Translator(
        str(Path(out) / "converted"), compute_type="float32", intra_threads=1
    )
    reader = TextReader(model, tokenizer)
    furthest = 0.0
    sources = Path(lines).read_text(encoding="utf-8").splitlines()
    for text in sources:
        source = reader.read(text)
        tokens = tokenizer.convert_ids_to_tokens(source.given["input_ids"])
        told = engine.translate_batch([tokens], beam_size=1, return_attention=True)[0]
        # Row k wrote token k and read the one before it: the first has read nothing yet.
        theirs = alone.finding(source, np.array(told.attention[0])[None, 1:], text)
        ids = torch.tensor([tokenizer.convert_tokens_to_ids(told.hypotheses[0])])
        read = torch.cat([torch.full((1, 1), model.config.decoder_start_token_id), ids], 1)[
            :, : len(told.attention[0])
        ]
        inputs, _, _ = reader.batch([source], ["-"])
        rows = torch.ones_like(read, dtype=torch.bool)
        rows[:, 0] = False
        ours = alone.judged(source, peaks(model, alone.heads, inputs, read, rows)[0], text)
        furthest = max(
            [furthest, *(abs(a - b) for a, b in zip(theirs.scores, ours.scores, strict=True))]
        )
    print(f"{len(sources)} sources, head {(layer, head)}: scores differ by at most {furthest:.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
