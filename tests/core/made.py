"""Made-up inputs that the tests of this room share."""

import torch
from hypothesis import strategies as st

from dwindle import DyDim, Plain, Rule, rule
from dwindle.core.concave import Concave, functions
from dwindle.core.notation import PRESETS
from dwindle.core.rules import Dim

# Every shipped g, by its examples: a new subclass of Concave joins by itself.
FUNCTIONS: list[Concave] = [
    cls(*args)
    for cls in functions().values()
    if cls.__module__ == "dwindle.core.concave"
    for args in cls.examples
]
RULES: list[Rule] = [
    Plain(),
    *map(Dim, FUNCTIONS),
    *(r for r in dict.fromkeys(PRESETS.values()) if isinstance(r, DyDim)),
    rule("dydim:boxcox(0.2),identity+detach_gate"),
    rule("dim:boxcox(0.5)+renormalise"),
    rule("dim:log+share_heads"),
    rule("dydim:log,power(0.5)+share_heads+renormalise+protect(0,-1)"),
]


def attention(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Sharp softmax rows (..., T, S), with padded positions and, now and then, a row of nothing."""
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(*shape, generator=generator, dtype=torch.float64)
    padded = torch.rand(*shape[:-2], 1, shape[-1], generator=generator) < 0.15
    empty = torch.rand(*shape[:-1], 1, generator=generator) < 0.05
    a = scores.softmax(-1).masked_fill(padded, 0).masked_fill(empty, 0)
    return (a / a.sum(-1, keepdim=True).clamp_min(1e-9)).to(dtype)


def attentions(**fixed: int) -> st.SearchStrategy[torch.Tensor]:
    """Attention (B, H, T, S) of any small size, down to no row and no source at all."""
    sizes = {"b": (1, 2), "h": (1, 3), "t": (0, 7), "s": (0, 5)}
    ranges = [
        st.just(fixed[k]) if k in fixed else st.integers(low, high)
        for k, (low, high) in sizes.items()
    ]
    return st.builds(
        lambda b, h, t, s, seed: attention(b, h, t, s, seed=seed), *ranges, st.integers(0, 10**6)
    )
