"""Temporal attention (Nallapati et al., 2016; Paulus et al., 2018): a rival of diminishing attention.

A position's unnormalised weight is divided by what it had before, then rows are normalised (Paulus et al., Eqs. 2-4):

    e'_ti = exp(e_ti)                              at the first step
    e'_ti = exp(e_ti) / sum_{j<t} exp(e_ji)        after it
    a_ti  = e'_ti / sum_i e'_ti

It works on scores: from softmax rows it cannot be computed, for each row has another normaliser. So it is a rule by
what can be done with it (attach, train, save, record), but none that is called on rows of attention.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dwindle.core.coverage import Coverage
from dwindle.core.rules import Rule

_MASKED = -3e4
"""No true score is as low. Masks write the lowest number of a model's dtype, -65504 in float16."""


@dataclass(frozen=True)
class Temporal(Rule):
    """Temporal attention in the cross-attention of a library model."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.renormalise or self.share_heads or self.protect:
            raise ValueError("temporal attention has no options: write 'temporal'")

    def weigh(self, added: Tensor, covered: Tensor, peak: Tensor) -> Tensor:
        raise ValueError("temporal attention is made from scores, not from rows of attention: attach it to a model")

    def rows(self, scores: Tensor, coverage: Coverage | None) -> tuple[Tensor, Coverage]:
        """Rows of temporal attention, in order.

        Args:
            scores: (..., T, S) e, very low or minus infinity where masked.
            coverage: what came before, each (..., S): ``total`` sums the rows, and ``peak`` is here the logarithm of
                the summed exp(e), minus infinity where there is none. None at the start.

        Returns:
            The rows (..., T, S), and the coverage after them. A row that may attend to nothing is zero and adds none.
        """
        scores = scores.masked_fill(scores < _MASKED, -math.inf)
        none = scores[..., 0, :]
        total = torch.zeros_like(none) if coverage is None else coverage.total
        past = torch.full_like(none, -math.inf) if coverage is None else coverage.peak
        past = past.masked_fill(total.sum(-1, keepdim=True) == 0, -math.inf)  # a cache that was reset has zeros
        sums = torch.cat([past.unsqueeze(-2), scores], dim=-2).logcumsumexp(-2)
        before = sums[..., :-1, :]
        divided = scores - before.masked_fill(before == -math.inf, 0)
        nothing = (divided == -math.inf).all(-1, keepdim=True)
        rows = divided.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)
        return rows, Coverage(total + rows.sum(-2), sums[..., -1, :])
