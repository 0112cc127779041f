"""``Call``: one checked call of attention, as every backend takes it.

Made by ``functional.attention`` after all checks; backends trust it.
"""

import os
from functools import cache, lru_cache
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from dwindle.core.constant import constant
from dwindle.core.coverage import state_dtype
from dwindle.core.rules import Rule
from dwindle.native.vocabulary import KernelNumbers


class Call(NamedTuple):
    """softmax(softcap(query key^T scale) + bias where mask), diminished by ``rule``, times
    value."""

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
    coverage: Any
    """Coverage that the rule left before: in float32 or float64, (B, H, P) each, or (B, 1, P) with
    ``share_heads``."""
    protected: Tensor | None
    """bool, (B | 1, H | 1, P): positions that keep their plain weight."""
    source: Tensor | None
    """bool, (B | 1, P), P <= S: the source among the first P positions. None: all S, and P is S."""
    rows: Tensor | None
    """bool, (B | 1, T): rows that feel coverage and add to it. None: all."""
    scale: float
    softcap: float
    """0: none."""
    dropout: float

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of scores, weights and coverage."""
        return state_dtype(self.query)

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """The shape of each tensor of the coverage."""
        b, h = self.query.shape[:2]
        covered = self.key.shape[2] if self.source is None else self.source.shape[1]
        return b, 1 if self.rule.share_heads else h, covered

    @property
    def felt(self) -> Tensor | None:
        """bool (B | 1, 1, T | 1, P): where the rule acts; None: everywhere."""
        if self.source is None and self.rows is None:
            return None
        rows = None if self.rows is None else self.rows[:, None, :, None]
        if self.source is None:
            return rows.expand(-1, -1, -1, self.key.shape[2]) if rows is not None else None
        source = self.source[:, None, None, :]
        return source if rows is None else rows & source

    def tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors that may need a gradient."""
        return self.query, self.key, self.value, self.bias, *(self.coverage or ())

    def differentiates(self) -> bool:
        """True if a gradient may be asked for."""
        return torch.is_grad_enabled() and any(
            x is not None and x.requires_grad for x in self.tensors()
        )

    def seed(self) -> Tensor | None:
        """A fresh seed for dropout, from torch's generator."""
        return torch.randint(2**62, (1,)) if self.dropout else None


class Backend(Protocol):
    """Functions that each module in this folder offers."""

    def objection(self, call: Call, /) -> str | None:
        """Reason why it cannot do this call, or None if it can."""

    def pays(self, call: Call, /) -> bool:
        """True if it is the fastest of those that follow it, for a call that it can do."""

    def attention(self, call: Call, /) -> tuple[Tensor, Any]:
        """The context (B, H, T, Dv) and the coverage after."""


UNTRANSFORMED = "torch.func and forward-mode differentiation cannot look into it"


def block_rows(rows: int, most: int) -> int:
    """Number of rows of a block, if ``rows`` are cut into as few equal blocks of at most ``most``
    as possible."""
    return max(1, -(-rows // max(1, -(-rows // most))))


@constant
def kernel_numbers(rule: Rule) -> KernelNumbers | None:
    """The rule in numbers if kernels can do it, else None; a constant for compilers."""
    return _numbers(rule)


@lru_cache(maxsize=64)
def _numbers(rule: Rule) -> KernelNumbers | None:
    return rule.numbers


def generation(device: torch.device) -> int:
    """Of NVIDIA's cards: 8 for an A100, 9 for an H100. All else counts as 8."""
    if device.type != "cuda" or torch.version.hip is not None:
        return 8
    return torch.cuda.get_device_capability(device)[0]


@cache
def interpreted() -> bool:
    """True if Triton's interpreter is on, as Triton of any version reads it."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "y", "yes", "on", "true")
