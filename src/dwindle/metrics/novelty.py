"""Novelty: which share of an output's n-grams does not stand in its source, for n = 1 to 5.

100 times novel n-grams over n-grams, each occurrence counted, 0 if an output has no n-gram of that
order.
"""

from dwindle.metrics.copied import ORDERS, Copied
from dwindle.metrics.kind import Kind
from dwindle.metrics.repetition import per_order
from dwindle.metrics.score import Metric

KINDS = tuple(Kind(f"novelty{n}", f"novel {n}-grams", 0, "%", 1) for n in ORDERS)


def metrics(option: str = "") -> list[Metric]:
    """``""`` is macro, the mean over outputs; ``micro`` pools the n-grams of all outputs."""
    return per_order("novelty", Copied(), KINDS, option)
