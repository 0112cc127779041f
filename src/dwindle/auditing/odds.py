"""The log-odds that a part of a source was left out, from its evidence, and the score of an item.

The weights of the evidence are those of a logistic regression on deletions that are known. An item
leaves something out if any of its parts was left out, so its odds are a sum over them: one clear
gap is not diluted by the many words that were heard. Each part counts twice, alone and together
with its neighbours, for clauses are left out as well as words. Knows arrays only.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dwindle.auditing.roc import Array

RIDGE = 1e-5
"""Penalty that draws the weights towards zero, so that they stay finite where the evidence
separates perfectly."""
POWER = 0.7
"""Power of the odds that are summed. Below 1, because the odds of neighbours are not independent,
and deletions are clearer than what people and models leave out."""
_MOST_STEPS = 50


def fit(
    kinds: Sequence[tuple[Array, npt.NDArray[np.bool_]]],
    towards: Array | None = None,
    ridge: float = RIDGE,
) -> tuple[float, ...]:
    """The offset and the weight of each evidence (1 + F,), by Newton's method.

    Args:
        kinds: for each kind of deletion the evidence on all parts (N, F) and which of them are
            missing (N,). Kinds count alike, however many parts they have.
        towards: weights of the evidence (F,) that those found are drawn to; None for zeros.
        ridge: how strongly they are drawn there.
    """
    evidence = np.concatenate([some for some, _ in kinds])
    missing = np.concatenate([gone for _, gone in kinds]).astype(np.float64)
    share = np.concatenate([np.full(len(gone), 1 / (len(gone) * len(kinds))) for _, gone in kinds])
    given = np.column_stack([np.ones(len(evidence)), evidence])
    aim = np.zeros(given.shape[1])
    if towards is not None:
        aim[1:] = towards
    penalty = np.array([RIDGE, *[ridge] * (len(aim) - 1)])

    def loss(weights: Array) -> float:
        odds = given @ weights
        each = np.logaddexp(0, odds) - missing * odds
        return float(share @ each + penalty @ (weights - aim) ** 2 / 2)

    weights = aim.copy()
    for _ in range(_MOST_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(given @ weights, -30, 30)))
        slope = given.T @ (share * (missing - chance)) - penalty * (weights - aim)
        curve = (given * (share * chance * (1 - chance))[:, None]).T @ given + np.diag(penalty)
        step = np.linalg.solve(curve, slope)
        # A whole step may lead too far where chances are near 0 or 1.
        while loss(weights + step) > loss(weights) and np.abs(step).max() > 1e-8:
            step /= 2
        weights += step
        if np.abs(step).max() < 1e-8:
            break
    return tuple(round(float(weight), 6) for weight in weights)


def log_odds(evidence: Tensor, weights: Sequence[float]) -> Tensor:
    """(P,): of each part, from its evidence (P, F) and the weights (1 + F,)."""
    offset, *slopes = weights
    return offset + evidence @ torch.tensor(slopes, dtype=evidence.dtype)


def item_score(scores: Tensor) -> float | None:
    """From the log-odds of all parts (P,): the logarithm of the sum of their odds to the ``POWER``,
    alone and smoothed; None without parts.

    Less half the logarithm of P: the faint hints that every part gives add up, and long items would
    be alarmed more.
    """
    if not len(scores):
        return None
    both = POWER * torch.cat([scores, _smoothed(scores)])
    return float(both.logsumexp(0)) - 0.5 * math.log(len(scores))


def _smoothed(scores: Tensor) -> Tensor:
    """(P,): half of each, and a quarter of either neighbour; at an end, of itself."""
    before, after = torch.cat([scores[:1], scores[:-1]]), torch.cat([scores[1:], scores[-1:]])
    return (before + 2 * scores + after) / 4
