"""``Call``: one checked call of attention, as every backend takes it.

Made by ``functional.attention`` after all checks; backends trust it.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from dwindle.core.constant import constant
from dwindle.core.coverage import Coverage, state_dtype
from dwindle.core.rules import Dim, DyDim, Plain, Rule


class Call(NamedTuple):
    """softmax(softcap(query key^T scale) + bias where mask), diminished by ``rule``, times value."""

    query: Tensor
    """(B, H, T, D)"""
    key: Tensor
    """(B, Hk, S, D): query heads h * H / Hk and following share key head h."""
    value: Tensor
    """(B, Hk, S, Dv)"""
    rule: Rule
    mask: Tensor | None
    """bool, (B | 1, H | 1, T | 1, S | 1); True: may be attended to."""
    bias: Tensor | None
    """In the dtype of the coverage, (B | 1, H | 1, T | 1, S | 1)."""
    coverage: Coverage | None
    """In float32 or float64, (B, H, S), or (B, 1, S) with ``share_heads``."""
    kept: Tensor | None
    """bool, (B | 1, H | 1, S): positions that keep their plain weight."""
    scale: float
    softcap: float
    """0: none."""
    dropout: float

    @property
    def dtype(self) -> torch.dtype:
        """Of scores, weights and coverage."""
        return state_dtype(self.query)

    def differentiates(self) -> bool:
        """Whether a gradient may be asked for."""
        if not torch.is_grad_enabled():
            return False
        tensors = (self.query, self.key, self.value, self.bias, *(self.coverage or ()))
        return any(x is not None and x.requires_grad for x in tensors)

    def seed(self) -> Tensor | None:
        """A fresh seed for dropout, from torch's generator."""
        return torch.randint(2**62, (1,)) if self.dropout else None


def block_rows(rows: int, most: int) -> int:
    """Of a block, where ``rows`` are cut into as few blocks as possible, all about alike, of at most so many."""
    return max(1, -(-rows // max(1, -(-rows // most))))


Numbers = tuple[float, float, float, float, float, float]


@constant
def kernel_numbers(rule: Rule) -> Numbers | None:
    """``(mode, s1, p1, s2, p2, detach_gate)`` if kernels can do the rule, else None.

    Kernels know Box-Cox functions, whose slope is s (1 + x)^(p - 1). Mode 0 is plain, 1 Dim, 2 DyDim.
    """
    return _numbers(rule)


@lru_cache(maxsize=64)
def _numbers(rule: Rule) -> Numbers | None:
    forms = [g.boxcox for g in rule.functions]
    if rule.renormalise or rule.share_heads or None in forms:
        return None
    (s1, p1), (s2, p2) = ([form for form in forms if form] + [(1.0, 1.0)] * 2)[:2]
    if isinstance(rule, DyDim):
        return 2.0, s1, p1, s2, p2, float(rule.detach_gate)
    if isinstance(rule, Plain) or (isinstance(rule, Dim) and (s1, p1) == (1.0, 1.0)):
        return 0.0, 1.0, 1.0, 1.0, 1.0, 0.0
    return (1.0, s1, p1, 1.0, 1.0, 0.0) if isinstance(rule, Dim) else None
