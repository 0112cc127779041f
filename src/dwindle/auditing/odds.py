"""The log-odds that a part of a source was left out, from its evidence, and the log-odds of an
item.

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
_MOST_STEPS = 50


def fit(kinds: Sequence[tuple[Array, npt.NDArray[np.bool_]]]) -> tuple[float, ...]:
    """The offset and the weight of each evidence (1 + F,), by Newton's method.

    Args:
        kinds: for each kind of deletion the evidence on all parts (N, F) and which of them are
            missing (N,). Kinds count alike, however many parts they have.
    """
    evidence = np.concatenate([some for some, _ in kinds])
    missing = np.concatenate([gone for _, gone in kinds]).astype(np.float64)
    share = np.concatenate([np.full(len(gone), 1 / (len(gone) * len(kinds))) for _, gone in kinds])
    given = np.column_stack([np.ones(len(evidence)), evidence])
    weights = np.zeros(given.shape[1])
    for _ in range(_MOST_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(given @ weights, -30, 30)))
        slope = given.T @ (share * (missing - chance)) - RIDGE * weights
        curve = (given * (share * chance * (1 - chance))[:, None]).T @ given + RIDGE * np.eye(
            len(weights)
        )
        step = np.linalg.solve(curve, slope)
        weights += step
        if np.abs(step).max() < 1e-8:
            break
    return tuple(round(float(weight), 6) for weight in weights)


def log_odds(evidence: Tensor, weights: Sequence[float]) -> Tensor:
    """(P,): of each part, from its evidence (P, F) and the weights (1 + F,)."""
    offset, *slopes = weights
    return offset + evidence @ torch.tensor(slopes, dtype=evidence.dtype)


def item_score(scores: Tensor) -> float | None:
    """From the log-odds of all parts (P,): the logarithm of the sum of odds, alone and smoothed;
    None without parts.

    Less half the logarithm of P: the faint hints that every part gives add up, and long items would
    be alarmed more.
    """
    if not len(scores):
        return None
    return float(torch.cat([scores, _smoothed(scores)]).logsumexp(0)) - 0.5 * math.log(len(scores))


def _smoothed(scores: Tensor) -> Tensor:
    """(P,): half of each, and a quarter of either neighbour; at an end, of itself."""
    before, after = torch.cat([scores[:1], scores[:-1]]), torch.cat([scores[1:], scores[-1:]])
    return (before + 2 * scores + after) / 4
