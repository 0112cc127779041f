"""Short and long: any metric on the half of the items with the shorter sources, and on the other half."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dwindle.metrics.outputs import Outputs
from dwindle.metrics.score import Metric


def long_half(system: Outputs) -> npt.NDArray[np.bool_]:
    """Marks the items (N,) of the long half. Length is words between spaces; equal lengths keep the order of
    ids; of an odd number of items the middle one is long."""
    for item in system.items:
        if item.source is None:
            raise ValueError(f"halves need sources, but {system.where(item)} has none: add them")
    lengths = np.array([len((item.source or "").split()) for item in system.items])
    if len(lengths) < 2:
        raise ValueError(f"{system.name} has one item: halves need at least two")
    marked = np.zeros(len(lengths), dtype=bool)
    marked[np.argsort(lengths, kind="stable")[len(lengths) // 2 :]] = True
    return marked


def renamed(metric: Metric, half: str) -> Metric:
    """The metric under the name ``metric/short`` or ``metric/long``, so that no score hides which half it is
    of."""
    return replace(metric, name=f"{metric.name}/{half}", details=f"half:{half}|{metric.details}")
