"""Pairs of systems that differ by chance alone, and how often a test finds a difference between
them.

Under such a null a p-value below 0.05 should come up one time in twenty. `at_most` is the largest
count that chance alone explains, so a test with twice its error rate fails. Shared by the tests and
the soak.
"""

import random
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.stats import binom

from dwindle.metrics import catalogue, halves
from dwindle.metrics.kind import Kind
from dwindle.metrics.score import Metric, Statistics, mean, reduce
from dwindle.runfiles.outputs import Item, outputs
from dwindle.study.tally import Vote
from tests.metrics import texts

LEVEL = 0.05
NUMBER = Metric(Kind("number", "a number"), "rows", (0,), mean, ())  # type: ignore[arg-type]


def at_most(trials: int, level: float = LEVEL, doubt: float = 1e-3) -> int:
    """As many of ``trials`` are below ``level`` or more in at most one of 1 / ``doubt`` fair
    simulations."""
    return int(binom.ppf(1 - doubt, trials, level))


class Population:
    """Items with two outputs each by the same writer. A null pair of systems draws items from it,
    with replacement, and decides by a coin which output is whose."""

    def __init__(self, names: Sequence[str], size: int = 400, seed: int = 1) -> None:
        whole = catalogue.find(names)
        self.metrics = [*whole, *halves.metrics(whole[:1])]
        self._metrics = whole
        one, two = (
            reduce(texts.system(size, writer), whole) for writer in (2 * seed, 2 * seed + 1)
        )
        self._sides = [{m.reduction: side._rows[m.reduction] for m in whole} for side in (one, two)]
        self._size = size

    def pairs(self, trials: int, items: int, seed: int) -> Iterator[tuple[Statistics, Statistics]]:
        """Null pairs. Every second item is taken as one with a long source, so that halves are
        tested too."""
        rng = np.random.default_rng(seed)
        named = outputs("null", [Item(str(i), "x", line=i) for i in range(items)])
        marked = np.arange(items) % 2 == 1
        for _ in range(trials):
            drawn, coin = rng.integers(self._size, size=items), rng.random(items) < 0.5
            made = []
            for first, second in (self._sides, self._sides[::-1]):
                rows = {
                    r: np.where(coin[:, None], first[r][drawn], second[r][drawn]) for r in first
                }
                plain = Statistics(named, rows)
                # Halves read other columns of the same reductions: both kinds are tested side by
                # side.
                made.append(_Both(plain, plain.parted(marked)))
            yield made[0], made[1]


class _Both(Statistics):
    """Statistics that answer for metrics of all items and for metrics of halves."""

    def __init__(self, plain: Statistics, parted: Statistics) -> None:
        super().__init__(plain.system, {})
        self._plain, self._parted = plain, parted

    def of(self, metric: Metric):
        return (self._parted if metric.half else self._plain).of(metric)


def trained(
    rng: np.random.Generator,
    seeds: int,
    items: int = 60,
    of_seed: float = 0.0,
    of_item: float = 1.0,
):
    """One system that was trained several times: the luck of each seed, and of each item with it.
    The items' luck is skewed, as scores are."""
    system = outputs("null", [Item(str(i), "x", line=i) for i in range(items)])
    return [
        Statistics(
            system,
            {"rows": (rng.normal(0, of_seed) + of_item * rng.exponential(1, items))[:, None]},
        )
        for _ in range(seeds)
    ]


def votes(rng: random.Random, items: int, raters: int, agree: float) -> list[Vote]:
    """Ballots on two systems of equal quality. With the chance ``agree`` the raters of an item all
    say the same."""
    made = []
    for item in range(items):
        shared = (
            (rng.choice("ab"), rng.random() < 0.5, rng.random() < 0.5)
            if rng.random() < agree
            else None
        )
        for rater in range(raters):
            own = (rng.choice(["a", "b", "a", "b", "tie"]), rng.random() < 0.5, rng.random() < 0.5)
            better, *yes = shared or own
            made.append(Vote(str(item), str(rater), {"better": better}, {"true": tuple(yes)}))
    return made
