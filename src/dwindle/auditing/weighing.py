"""Heads that tell what was left out, and how much each of them counts, by deletions.

Heads are picked one by one, the same one more than once if that helps most. A logistic regression
on so few deletions would fit their noise, so it is drawn to the weights that the picks alone would
have; the heads with the most influence are kept. Runs no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dwindle.auditing.listeners import LEAST, evidence
from dwindle.auditing.odds import fit
from dwindle.auditing.roc import Array, auroc
from dwindle.auditing.source import ReadSource

PICKS = 16
"""Number of heads that are picked one by one, most of them several times."""
RIDGE = 0.03
"""Strength with which the weights of heads are drawn to those that the picks alone would have."""
MOST_HEADS = 8
LEAST_INFLUENCE = 0.1
"""Influence of a head (its weight times its spread) beside that of the strongest, from which it is
kept."""


@dataclass(frozen=True)
class Heard:
    """One source with an output: the peaks of heads (heads, S), which parts are missing (P,), and
    with a second opinion the surprise of each part (P, 2)."""

    source: ReadSource
    peaks: Tensor
    missing: npt.NDArray[np.bool_]
    surprise: Tensor | None = None
    pair: "tuple[Any, str]" = ("", "")
    """The source and the output themselves."""

    def by(self, heads: Sequence[int]) -> "Heard":
        """The same item with some of the heads only."""
        return replace(self, peaks=self.peaks[list(heads)])

    def evidence(self, head_weights: Sequence[float], usual: dict[str, float]) -> Tensor:
        """(P, F)"""
        return evidence(self.source, self.peaks, head_weights, usual, self.surprise)


def weighed(trials: dict[str, list[Heard]]) -> tuple[list[int], tuple[float, ...]]:
    """The heads that are kept, as numbers, and the weight of each."""
    kinds = [_logs(items) for items in trials.values()]
    picks = _picked(kinds)
    _, slope = fit([((picks @ scores)[:, None], missing) for scores, missing in kinds])
    # In units of each head's spread, so that a head whose attention varies little counts as well.
    every = np.concatenate([scores for scores, _ in kinds], 1)
    spread = np.maximum(every.std(1).astype(np.float64), 1e-6)
    towards = slope * picks * spread
    rows = [((scores / spread[:, None]).T, missing) for scores, missing in kinds]
    influence = np.abs(fit(rows, towards, RIDGE)[1:])
    least = LEAST_INFLUENCE * influence.max()
    kept = sorted(n for n in np.argsort(-influence)[:MOST_HEADS].tolist() if influence[n] >= least)
    _, *fitted = fit([(some[:, kept], missing) for some, missing in rows], towards[kept], RIDGE)
    weights = np.array(fitted) / spread[kept]
    return kept, tuple(round(weight, 6) for weight in weights.tolist())


def _picked(kinds: Sequence[tuple[Array, npt.NDArray[np.bool_]]]) -> Array:
    """(heads,): the share of each head among those picked one by one for the highest AUROC, mean of
    kinds, of their sum."""
    total = [np.zeros(scores.shape[1]) for scores, _ in kinds]
    picks = np.zeros(len(kinds[0][0]))
    for _ in range(PICKS):
        told = [
            [auroc(missing, so_far + one) for one in scores]
            for (scores, missing), so_far in zip(kinds, total, strict=True)
        ]
        head = int(np.mean(told, axis=0).argmax())
        picks[head] += 1 / PICKS
        total = [so_far + scores[head] for (scores, _), so_far in zip(kinds, total, strict=True)]
    return picks


def _logs(items: Sequence[Heard]) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Minus the log of the peaks of all parts of all items, (heads, N), and the missing, (N,)."""
    found = torch.cat([item.source.of_parts(item.peaks) for item in items], dim=1)
    return -found.clamp(min=LEAST).log().numpy(), np.concatenate([item.missing for item in items])


def auroc_of(items: Sequence[Heard], chosen: Sequence[int], head_weights: Sequence[float]) -> float:
    scores, missing = _logs(items)
    return auroc(missing, np.array(head_weights) @ scores[list(chosen)])


def evidence_of(
    items: Sequence[Heard], head_weights: Sequence[float], usual: dict[str, float]
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The evidence on all parts of all items (N, F), and which are missing (N,)."""
    found = torch.cat([item.evidence(head_weights, usual) for item in items]).double().numpy()
    return found, np.concatenate([item.missing for item in items])
