"""Tiny decoder-only models with sharp attention, in float64 unless said, and prompts for them."""

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import DynamicCache

RULE = "dydim:log(2.2),power(0.4)"
TOKENS = 14
EAGER = 1e-5  # the library's own eager attention has a float32 softmax
WIDE = {
    "vocab_size": 40,
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 3,
    "head_dim": 6,
}
HEADS = {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.4,
}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
LLAMA = WIDE | HEADS | IDS
SLIDING = {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "query_pre_attn_scalar": 6,
    # else a random model repeats its last token whatever it attends to
    "tie_word_embeddings": False,
}
GPT2 = {
    "vocab_size": 40,
    "n_embd": 24,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 64,
    "initializer_range": 0.4,
} | IDS
OLD = {"vocab_size": 40, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4} | IDS

FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": LLAMA,
    "Qwen2": LLAMA,
    "Qwen3": LLAMA,
    "Mistral": LLAMA | {"sliding_window": 60},
    "Gemma2": LLAMA | SLIDING | {"sliding_window": 60, "attn_logit_softcapping": 20.0},
    "Gemma3": LLAMA | SLIDING | {"sliding_window": 60},
    "GPT2": GPT2,
}
OTHERS: dict[str, dict[str, Any]] = {
    "Gemma": LLAMA,
    "Olmo2": LLAMA,
    "Phi3": LLAMA | {"head_dim": None},
    "Cohere": LLAMA | {"head_dim": None},
    "Starcoder2": LLAMA | {"head_dim": None},
    "GPTNeoX": OLD | {"intermediate_size": 32, "initializer_range": 0.4},
    "OPT": OLD
    | {"ffn_dim": 32, "word_embed_proj_dim": 24, "init_std": 0.4, "max_position_embeddings": 64},
}


def made(family: str, dtype: torch.dtype = torch.float64, **changes: Any) -> Any:
    """A tiny model whose attention is far from uniform: else a coverage that is not reordered goes
    unseen."""
    torch.manual_seed(3)
    settings = (FAMILIES | OTHERS)[family] | changes
    settings = {k: v for k, v in settings.items() if k != "head_dim" or v is not None}
    names = {
        "GPT2": ("GPT2Config", "GPT2LMHeadModel"),
        "Gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM"),
    }
    config, model = names.get(family, (f"{family}Config", f"{family}ForCausalLM"))
    made = getattr(transformers, model)(getattr(transformers, config)(**settings)).eval().to(dtype)
    for name, parameter in made.named_parameters():
        if "q_norm" in name or "k_norm" in name:
            parameter.data += 1.5
    return made


def batch(rows: int = 2) -> tuple[Tensor, Tensor]:
    """Tokens (B, T), and a source of another place and length in each row."""
    torch.manual_seed(5)
    ids = torch.randint(3, 40, (rows, TOKENS))
    mask = torch.zeros(rows, TOKENS, dtype=torch.bool)
    for i in range(rows):
        mask[i, 1 + i % 3 : 5 + 2 * (i % 3)] = True
    return ids, mask


def stepped(model: Any, ids: Tensor, pieces: list[int], cache: Any = None) -> Tensor:
    """The logits of ids fed in pieces of these lengths, through a cache."""
    cache = DynamicCache(config=model.config) if cache is None else cache
    parts = ids.split(pieces, dim=1)
    return torch.cat(
        [model(part, past_key_values=cache, use_cache=True).logits for part in parts], dim=1
    )


# RMS norms are float32 in a float64 model too
def close(a: Tensor, b: Tensor, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def configs(model: Any) -> list[Any]:
    return [m.config for m in model.modules() if hasattr(m, "config")]


families = pytest.mark.parametrize("family", FAMILIES)
