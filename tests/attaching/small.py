"""Tiny random models with sharp attention and a batch for them, shared by the tests of this folder.

On a nearly uniform attention every beam has the same coverage, and a forgotten reorder would pass
unseen.
"""

from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

RULE = "dydim:log,power(0.5)"
VOCABULARY, PAD, START, END = 40, 1, 2, 2
CHECKPOINTING = next(
    name
    for name in ("activation_checkpointing", "gradient_checkpointing")  # 5.23 on, the first
    if hasattr(hf.PreTrainedModel, f"{name}_enable")
)
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "init_std": 0.4,
    "dropout": 0.0,
    "pad_token_id": PAD,
    "eos_token_id": END,
    "decoder_start_token_id": START,
    "forced_eos_token_id": None,
}


def bart(seed: int = 0, attention: str = "sdpa", **changes: Any) -> hf.BartForConditionalGeneration:
    """Learned positions, three decoder layers."""
    torch.manual_seed(seed)
    config = hf.BartConfig(**{**SHAPE, "bos_token_id": 0, **changes}, attn_implementation=attention)
    return hf.BartForConditionalGeneration(config).eval()


def t5(seed: int = 0, attention: str = "sdpa") -> hf.T5ForConditionalGeneration:
    """Relative positions: padding on the left of the decoder's prompt changes nothing.

    In older releases its attention is written by hand: it is asked for what it has.
    """
    torch.manual_seed(seed)
    if not hf.T5ForConditionalGeneration._supports_sdpa:
        attention = "eager"
    config = hf.T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=3,
        num_heads=4,
        initializer_factor=3.0,
        dropout_rate=0.0,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=START,
        attn_implementation=attention,
    )
    return hf.T5ForConditionalGeneration(config).eval()


def forget_activations(model: hf.PreTrainedModel, reentrant: bool) -> None:
    """Let ``model`` compute its activations again instead of keeping them."""
    getattr(model, f"{CHECKPOINTING}_enable")({"use_reentrant": reentrant})


def t5_in_double() -> hf.T5ForConditionalGeneration:
    """For tests with rows that are all padding, which need more than float32."""
    if not hf.T5ForConditionalGeneration._supports_sdpa:
        pytest.skip(
            "this release's T5 has a softmax in float32, where such rows of a float64 model are "
            "NaN, rule or not"
        )
    return t5().double()


def source(
    lengths: tuple[int, ...] = (9, 6), side: str = "right", seed: int = 1
) -> dict[str, Tensor]:
    """Sources of these lengths, each ending in ``END``, padded on one side."""
    return padded([[*words(n - 1, seed + i), END] for i, n in enumerate(lengths)], side)


def padded(texts: list[list[int]], side: str = "right") -> dict[str, Tensor]:
    width = max(map(len, texts))
    ids = torch.full((len(texts), width), PAD)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
        if side == "left":
            ids[row] = ids[row].roll(width - len(text))
    return {"input_ids": ids, "attention_mask": (ids != PAD).long()}


def words(count: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, VOCABULARY, (count,), generator=generator).tolist()


def target(rows: int = 7, batch: int = 2, seed: int = 9) -> Tensor:
    return torch.tensor([words(rows, seed + i) for i in range(batch)])


def generated(model: hf.PreTrainedModel, inputs: dict[str, Tensor], **settings: Any) -> Any:
    """Tokens and, for each step, the scores of every beam: equal tokens alone prove little."""
    settings = {
        "max_new_tokens": 12,
        "min_new_tokens": 12,
        "do_sample": False,
        "num_beams": 1,
        **settings,
    }
    with torch.no_grad():
        return model.generate(
            **inputs, output_scores=True, return_dict_in_generate=True, **settings
        )


def same(a: Any, b: Any, atol: float = 1e-4) -> bool:
    """Equal tokens, and equal scores at every step."""
    close = all(
        torch.allclose(x, y, rtol=0, atol=atol) for x, y in zip(a.scores, b.scores, strict=True)
    )
    return torch.equal(a.sequences, b.sequences) and close
