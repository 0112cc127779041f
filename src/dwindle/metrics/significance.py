"""Is the difference real? Paired bootstrap, approximate randomisation, intervals, Holm.

All on cached statistics: a resample is a row of counts, its sums are one matrix product, its values
one formula for any metric. Draws are those of `sacrebleu` for the same seed, so that BLEU gives the
same intervals, the same p-value by randomisation and, with ``bootstrap="sacrebleu"``, the same
p-value by bootstrap. Reads no text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from dwindle.metrics.catalogue import kind
from dwindle.metrics.difference import Difference
from dwindle.metrics.score import Array, Metric, Score, Statistics
from dwindle.runfiles.outputs import same_items

RESAMPLES, SEED = 1000, 1
Bootstrap = Literal["centred", "sacrebleu"]
"""Ways to compute the bootstrap's p-value: see `bootstrap_p`."""
_CELLS = 4_000_000  # of the matrix of counts held at a time: 32 MB


@dataclass(frozen=True, kw_only=True)
class PairedTest(Difference):
    """A difference with its parts: the system's score with interval, and the base's value.

    ``p`` and ``p_holm`` are those of approximate randomisation; the bootstrap has its own.
    """

    score: Score
    base: float
    p_bootstrap: float
    holm_bootstrap: float

    @property
    def p_randomisation(self) -> float:
        assert self.p is not None
        return self.p

    @property
    def holm_randomisation(self) -> float:
        assert self.p_holm is not None
        return self.p_holm


def intervals(
    statistics: Statistics, metrics: Sequence[Metric], resamples: int = RESAMPLES, seed: int = SEED
) -> list[Score]:
    """Scores with 95 % confidence intervals, one set of resamples for all metrics."""
    values = resampled(statistics, metrics, resamples, seed)
    return [
        _score(statistics, metric, row, seed=seed, bs=resamples)
        for metric, row in zip(metrics, values, strict=True)
    ]


def compare(
    base: Statistics,
    others: Sequence[Statistics],
    metrics: Sequence[Metric],
    resamples: int = RESAMPLES,
    seed: int = SEED,
    bootstrap: Bootstrap = "centred",
) -> list[list[PairedTest]]:
    """Test each metric's difference between the base and each other system: one list a system."""
    _check(resamples, seed)
    if bootstrap not in get_args(Bootstrap):
        raise ValueError(
            f"there is no bootstrap {bootstrap!r}: choose {' or '.join(get_args(Bootstrap))}"
        )
    for other in others:
        same_items(base.system, other.system)
    tests = [_paired(base, other, metrics, resamples, seed, bootstrap) for other in others]
    for k in range(len(metrics)):  # one metric in all systems
        drawn, shuffled = (
            holm([getattr(row[k], p) for row in tests]) for p in ("p_bootstrap", "p_randomisation")
        )
        for row, one, two in zip(tests, drawn, shuffled, strict=True):
            row[k] = replace(row[k], holm_bootstrap=one, p_holm=two)
    return tests


def _paired(
    base: Statistics,
    other: Statistics,
    metrics: Sequence[Metric],
    resamples: int,
    seed: int,
    bootstrap: Bootstrap,
) -> list[PairedTest]:
    """The tests of one system, before the correction."""
    ours = resampled(base, metrics, resamples, seed)
    theirs = resampled(other, metrics, resamples, seed)
    shuffled = shuffled_differences(base, other, metrics, resamples, seed)
    tests = []
    for metric, a, b, chance in zip(metrics, ours, theirs, shuffled, strict=True):
        score = _score(other, metric, b, seed=seed, bs=resamples, p=bootstrap, ar=resamples)
        value = base.value(metric)
        difference = score.value - value
        low, high = interval(b - a)
        drawn, shuffled_p = bootstrap_p(b - a, difference, bootstrap), p_value(chance, difference)
        tests.append(
            PairedTest(
                metric=metric.name,
                difference=difference,
                low=low,
                high=high,
                p=shuffled_p,
                p_holm=shuffled_p,
                wins=wins(a, b, metric),
                score=score,
                base=value,
                p_bootstrap=drawn,
                holm_bootstrap=drawn,
            )
        )
    return tests


def wins(base: Array, other: Array, metric: Metric) -> float:
    """Share of resamples (B,) in which the other system is better than the base (Koehn, 2004: the
    confidence that the paper prints); has the higher value, where neither side is better."""
    return float(np.mean((other - base) * (kind(metric.name).better or 1) > 0))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values after Holm (1979): the k-th smallest of m times m - k + 1, never falling."""
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected


def _score(statistics: Statistics, metric: Metric, values: Array, **drawn: int | str) -> Score:
    low, high = interval(values)
    return Score(metric.name, statistics.value(metric), metric.signature.also(**drawn), low, high)


def _check(resamples: int, seed: int) -> None:
    if resamples < 40:
        raise ValueError(f"{resamples} resamples cannot bound 95 %: take at least 40, better 1000")
    if seed < 0:
        raise ValueError(f"the seed {seed} is negative: take a whole number of 0 or more")


def resampled(
    statistics: Statistics, metrics: Sequence[Metric], resamples: int, seed: int
) -> list[Array]:
    """For each metric, its value (B,) in each bootstrap resample."""
    _check(resamples, seed)
    sums = [
        _sums(counts, statistics, metrics)
        for counts in _bootstrap_counts(len(statistics.system), resamples, seed)
    ]
    return _values(np.concatenate(sums), metrics, len(statistics.system))


def shuffled_differences(
    base: Statistics, other: Statistics, metrics: Sequence[Metric], resamples: int, seed: int
) -> list[Array]:
    """For each metric, the absolute difference (B,) between two systems made by swapping each
    item's outputs by a coin."""
    items = len(base.system)
    ones = np.ones((1, items))
    total = _sums(ones, base, metrics) + _sums(ones, other, metrics)
    first = np.concatenate(
        [
            _sums(coins, base, metrics) + _sums(1 - coins, other, metrics)
            for coins in _coins(items, resamples, seed)
        ]
    )
    one, two = _values(first, metrics, items), _values(total - first, metrics, items)
    return [np.abs(a - b) for a, b in zip(one, two, strict=True)]


def _sums(counts: Array, statistics: Statistics, metrics: Sequence[Metric]) -> Array:
    """Counts (B, N) times the rows of all metrics side by side (N, K) -> sums (B, K)."""
    sums: Array = counts @ np.concatenate([statistics.of(metric) for metric in metrics], axis=1)
    return sums


def _values(sums: Array, metrics: Sequence[Metric], items: int) -> list[Array]:
    parts = np.split(sums, np.cumsum([len(metric.columns) for metric in metrics])[:-1], axis=1)
    return [metric.formula(part, items) for metric, part in zip(metrics, parts, strict=True)]


def _bootstrap_counts(items: int, resamples: int, seed: int) -> Iterator[Array]:
    """Number of times that each item is in each resample: (B, N) in slices of B."""
    rng = np.random.default_rng(seed)
    for size in _slices(items, resamples):
        drawn = rng.choice(items, size=(size, items), replace=True)
        drawn += items * np.arange(size)[:, None]
        yield (
            np.bincount(drawn.ravel(), minlength=size * items)
            .reshape(size, items)
            .astype(np.float64)
        )


def _coins(items: int, resamples: int, seed: int) -> Iterator[Array]:
    """Fair coins (B, N) in slices of B."""
    rng = np.random.default_rng(seed)
    for size in _slices(items, resamples):
        yield rng.integers(2, size=(size, items), dtype=bool).astype(np.float64)


def _slices(items: int, resamples: int) -> Iterator[int]:
    """Sizes that sum to ``resamples``. Multiples of 32, for numpy draws 32 coins at a time and
    drops the
    rest: only then is the stream of slices the stream of one draw."""
    size = max(_CELLS // items // 32, 1) * 32
    for start in range(0, resamples, size):
        yield min(size, resamples - start)


def interval(values: Array) -> tuple[float, float]:
    """The middle 95 % of resampled values."""
    ranked = np.sort(values)
    cut = len(ranked) // 40
    return float(ranked[cut]), float(ranked[-cut - 1])


def bootstrap_p(resampled: Array, difference: float, bootstrap: Bootstrap = "centred") -> float:
    """Two-sided p-value of a difference from its resampled values (B,).

    ``centred`` counts the resamples d that stray from the difference D as far as D is from zero:
    ``|d - D| >= |D|`` (Efron and Tibshirani, 1993). ``sacrebleu`` takes the absolute value before
    it centres, ``|d| - mean|d| >= |D|``, as that package does. Absolute values vary less than the
    differences themselves, so that equal systems come out below 0.05 about twice as often as they
    should: use it only to compare with sacrebleu's numbers.
    """
    if bootstrap == "sacrebleu":
        folded = np.abs(resampled)
        return p_value(folded - folded.mean(), difference)
    return p_value(np.abs(resampled - difference), difference)


def p_value(chance: Array, difference: float) -> float:
    """Share of shuffles in which chance alone reaches the difference; one more in both counts, as
    sacrebleu does. No difference is not evidence: 1.

    sacrebleu counts what exceeds it. Where few items differ, most shuffles give the very same
    difference, and two items that happen to agree would look certain.
    """
    if difference == 0:
        return 1.0
    # The sums of a shuffle round differently from those of the systems: what is equal but for that
    # is equal.
    reaching = int(np.sum(chance >= abs(difference) * (1 - 1e-9)))
    return (reaching + 1) / (len(chance) + 1)
