"""Short and long: any metric on the half of the items with the shorter sources, on the other half,
and the gap between them, which says whether a difference grows with length."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dwindle.metrics.score import Array, Count, Formula, Metric, Statistics

_SIDES = {"short": 0, "long": 1}


def halved(statistics: Statistics) -> Statistics:
    """The statistics that the ``metrics`` of halves read.

    Length is counted in characters, because not every script has spaces between words; of equal
    lengths the earlier id is the shorter; of an odd number of items the middle one is long.
    """
    system = statistics.system
    for item in system.items:
        if item.source is None:
            raise ValueError(f"halves need sources, but {system.where(item)} has none: add them")
    if len(system) < 2:
        raise ValueError(f"{system.name} has one item: halves need at least two")
    lengths = [len((item.source or "").strip()) for item in system.items]
    long = np.ones(len(system), dtype=bool)
    long[np.argsort(lengths, kind="stable")[: len(system) // 2]] = False
    return statistics.parted(long)


def metrics(whole: Sequence[Metric]) -> list[Metric]:
    """Each metric as ``metric/short``, ``metric/long`` and ``metric/gap`` (long less short), so
    that no score hides what it is of."""
    return [
        made
        for metric in whole
        for made in (_side(metric, "short"), _side(metric, "long"), _gap(metric))
    ]


def _side(metric: Metric, half: str) -> Metric:
    columns = tuple(2 * (column + 1) + _SIDES[half] for column in (-1, *metric.columns))
    return replace(metric, columns=columns, formula=_counted(metric.formula), half=half)


def _gap(metric: Metric) -> Metric:
    short, long = _side(metric, "short"), _side(metric, "long")

    def formula(sums: Array, _: Count) -> Array:
        one, two = np.split(sums, 2, axis=-1)
        return long.formula(two, 1) - short.formula(one, 1)

    return replace(metric, columns=(*short.columns, *long.columns), formula=formula, half="gap")


def _counted(formula: Formula) -> Formula:
    """The formula where the first column is how many items there are: of a resample, any number."""
    return lambda sums, _: formula(sums[..., 1:], np.maximum(sums[..., 0], 1))
