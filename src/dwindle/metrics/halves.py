"""Short and long: any metric on the half of the items with the shorter sources, and on the other half."""

from dataclasses import replace

import numpy as np

from dwindle.metrics.score import Metric, Statistics


def halves(statistics: Statistics) -> dict[str, Statistics]:
    """The statistics of the ``short`` and of the ``long`` half.

    Length is characters, for not every script has spaces between words; of equal lengths the earlier id is the
    shorter; of an odd number of items the middle one is long.
    """
    system = statistics.system
    for item in system.items:
        if item.source is None:
            raise ValueError(f"halves need sources, but {system.where(item)} has none: add them")
    if len(system) < 2:
        raise ValueError(f"{system.name} has one item: halves need at least two")
    lengths = [len((item.source or "").strip()) for item in system.items]
    short = np.zeros(len(system), dtype=bool)
    short[np.argsort(lengths, kind="stable")[: len(system) // 2]] = True
    return {"short": statistics.select(short), "long": statistics.select(~short)}


def renamed(metric: Metric, half: str) -> Metric:
    """The metric as ``metric/short`` or ``metric/long``, so that no score hides which half it is of."""
    return replace(metric, half=half)
