"""``auroc``: how well scores tell what is missing from what is not. Knows arrays only."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]


def auroc(
    missing: npt.NDArray[np.bool_], scores: Array, weights: npt.NDArray[Any] | None = None
) -> float:
    """The probability that a missing part scores higher than one that is not missing; ties count
    half. NaN unless there are both. All (N,)."""
    weights = np.ones(len(missing)) if weights is None else weights.astype(np.float64)
    values, place = np.unique(scores, return_inverse=True)
    gone = np.bincount(place, weights * missing, len(values))
    kept = np.bincount(place, weights * ~missing, len(values))
    below = np.cumsum(kept) - kept / 2
    total = gone.sum() * kept.sum()
    return float((gone * below).sum() / total) if total else float("nan")
