"""The score that ranks hypotheses: s(y) = log P(y) / norm(length of y) + penalty(coverage of y).
Tensors only."""

import torch
from torch import Tensor

from dwindle.generation.settings import DecodingSettings


def norm(settings: DecodingSettings, length: int) -> float:
    """Divisor of the log-probability of ``length`` generated tokens, the end token included.

    ``average`` has one more, for See's beam search counts the start token too. ``gnmt`` is lp of Wu
    et al., Eq. 14.
    """
    if settings.length_norm == "average":
        return 1.0 + length
    if settings.length_norm == "alpha":
        return float(length**settings.alpha)
    return float(((5 + length) / 6) ** settings.alpha) if settings.length_norm == "gnmt" else 1.0


def penalty(settings: DecodingSettings, coverage: Tensor, real: Tensor) -> Tensor:
    """(N,) of coverage (N, S), over the ``real`` source positions, bool (N, S). Never positive.

    gnmt: beta sum_i log min(c_i, 1) (Wu et al., Eq. 14). gehrmann: -beta sum_i (max(c_i, 1) - 1),
    which is their -beta (-S + sum_i max(c_i, 1)).
    """
    if settings.coverage_penalty == "gnmt":
        # A position that was never seen costs much, but not everything: the others must still
        # count.
        lacking = coverage.clamp(torch.finfo(coverage.dtype).tiny, 1).log()
    else:
        lacking = 1 - coverage.clamp(min=1)
    return settings.beta * lacking.masked_fill(~real, 0).sum(-1)
