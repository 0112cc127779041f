"""Temporal attention (Nallapati et al., 2016; Paulus et al., 2018), a rival of this method.

A position's unnormalised weight is divided by what it had before, then rows are normalised (Paulus
et al., Eqs. 2-4):

    e'_ti = exp(e_ti)                              at the first step
    e'_ti = exp(e_ti) / sum_{j<t} exp(e_ji)        after it
    a_ti  = e'_ti / sum_i e'_ti

It works from scores: it cannot be computed from softmax rows, because each row has its own
normaliser. It remembers the logarithm of the sum of exp(e), not the largest attention.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dwindle.core.coverage import Moving, state_dtype
from dwindle.core.rules import Attended, Rule

_MASKED = -3e4
"""No true score is as low. Masks write the lowest number of a model's dtype, -65504 in float16."""


class _TemporalCoverage(NamedTuple):
    total: Tensor
    """(B, ..., S): the sum of the rows."""
    past: Tensor
    """(B, ..., S): the logarithm of the summed exp(e), minus infinity where there is none."""


class TemporalCoverage(Moving, _TemporalCoverage):
    """State of temporal attention: the ``total`` of its rows, and its divisor, the ``past``."""

    __slots__ = ()


@dataclass(frozen=True)
class Temporal(Rule):
    """Temporal attention in place of softmax rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.renormalise or self.share_heads or self.protect:
            raise ValueError("temporal attention has no options: write 'temporal'")

    def attend(
        self,
        scores: Tensor,
        coverage: TemporalCoverage | None = None,
        *,
        protected: Tensor | None = None,
    ) -> Attended:
        """Rows of temporal attention, in order; scores that are very low count as masked."""
        scores = scores.to(state_dtype(scores))
        scores = scores.masked_fill(scores < _MASKED, -math.inf)
        total, past = self._before(scores, coverage)
        sums = torch.cat([past.unsqueeze(-2), scores], dim=-2).logcumsumexp(-2)
        before = sums[..., :-1, :]
        divided = scores - before.masked_fill(before == -math.inf, 0)
        nothing = (divided == -math.inf).all(-1, keepdim=True)
        rows = divided.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)
        return Attended(rows, rows, TemporalCoverage(total + rows.sum(-2), sums[..., -1, :]))

    def _before(self, scores: Tensor, coverage: TemporalCoverage | None) -> tuple[Tensor, Tensor]:
        """Total and past, each (..., S). A cache that was reset has zeros: that is a start too."""
        none = scores.new_zeros(scores.shape[:-2] + scores.shape[-1:])
        if coverage is None:
            return none, torch.full_like(none, -math.inf)
        total, past = coverage.checked(none.shape, none.dtype)
        return total, past.masked_fill(total.sum(-1, keepdim=True) == 0, -math.inf)
