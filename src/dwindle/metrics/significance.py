"""Is the difference real? Paired bootstrap, approximate randomisation, confidence intervals, Holm's
correction.

All on cached statistics: a resample is a row of counts, its sums are one matrix product, its values one
formula for any metric. Draws are those of `sacrebleu` for the same seed, so that BLEU gives the same
p-values. Reads no text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from dwindle.folder.outputs import same_items
from dwindle.metrics.score import Array, Metric, Score, Statistics

RESAMPLES, SEED = 1000, 1
_CELLS = 4_000_000  # of the matrix of counts held at a time: 32 MB


@dataclass(frozen=True)
class PairedTest:
    """One metric of a system, its score with its interval, next to the value of the base.

    ``low`` and ``high`` bound the difference (95 %). ``wins`` is the share of bootstrap resamples in which
    the system has the higher value (Koehn, 2004: the confidence the paper prints). The p-values are
    two-sided; ``holm_`` marks them after the correction across systems.
    """

    score: Score
    base: float
    low: float
    high: float
    wins: float
    p_bootstrap: float
    p_randomisation: float
    holm_bootstrap: float
    holm_randomisation: float

    @property
    def difference(self) -> float:
        return self.score.value - self.base


def intervals(
    statistics: Statistics, metrics: Sequence[Metric], resamples: int = RESAMPLES, seed: int = SEED
) -> list[Score]:
    """Scores with 95 % confidence intervals, one set of resamples for all metrics."""
    values = resampled(statistics, metrics, resamples, seed)
    return [
        _score(statistics, metric, row, seed=seed, bs=resamples) for metric, row in zip(metrics, values, strict=True)
    ]


def compare(
    base: Statistics,
    others: Sequence[Statistics],
    metrics: Sequence[Metric],
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> list[list[PairedTest]]:
    """Test each metric's difference between the base and each other system: one list a system."""
    _check(resamples, seed)
    for other in others:
        same_items(base.system, other.system)
    tests = [_paired(base, other, metrics, resamples, seed) for other in others]
    for column in zip(*tests, strict=True):  # one metric in all systems
        for name in ("bootstrap", "randomisation"):
            corrected = holm([getattr(test, f"p_{name}") for test in column])
            for test, p in zip(column, corrected, strict=True):
                setattr(test, f"holm_{name}", p)
    return [[PairedTest(**vars(test)) for test in row] for row in tests]


def _paired(
    base: Statistics, other: Statistics, metrics: Sequence[Metric], resamples: int, seed: int
) -> list[SimpleNamespace]:
    """The tests of one system, before the correction."""
    ours = resampled(base, metrics, resamples, seed)
    theirs = resampled(other, metrics, resamples, seed)
    shuffled = shuffled_differences(base, other, metrics, resamples, seed)
    tests = []
    for metric, a, b, chance in zip(metrics, ours, theirs, shuffled, strict=True):
        score = _score(other, metric, b, seed=seed, bs=resamples, ar=resamples)
        value = base.value(metric)
        low, high = interval(b - a)
        spread = np.abs(b - a)
        tests.append(
            SimpleNamespace(
                score=score,
                base=value,
                low=low,
                high=high,
                wins=float(np.mean(b > a)),
                p_bootstrap=p_value(spread - spread.mean(), score.value - value),
                p_randomisation=p_value(chance, score.value - value),
            )
        )
    return tests


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm, 1979): the k-th smallest of m times m - k + 1, never
    falling."""
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected


def _score(statistics: Statistics, metric: Metric, values: Array, **drawn: int) -> Score:
    low, high = interval(values)
    return Score(metric.name, statistics.value(metric), metric.signature.also(**drawn), low, high)


def _check(resamples: int, seed: int) -> None:
    if resamples < 40:
        raise ValueError(f"{resamples} resamples cannot bound 95 %: take at least 40, better 1000")
    if seed < 0:
        raise ValueError(f"the seed {seed} is negative: take a whole number of 0 or more")


def resampled(statistics: Statistics, metrics: Sequence[Metric], resamples: int, seed: int) -> list[Array]:
    """For each metric, its value (B,) in each bootstrap resample."""
    _check(resamples, seed)
    sums = [_sums(counts, statistics, metrics) for counts in _bootstrap_counts(len(statistics.system), resamples, seed)]
    return _values(np.concatenate(sums), metrics, len(statistics.system))


def shuffled_differences(
    base: Statistics, other: Statistics, metrics: Sequence[Metric], resamples: int, seed: int
) -> list[Array]:
    """For each metric, the absolute difference (B,) between two systems made by swapping each item's outputs by a
    coin."""
    items = len(base.system)
    ones = np.ones((1, items))
    total = _sums(ones, base, metrics) + _sums(ones, other, metrics)
    first = np.concatenate(
        [_sums(coins, base, metrics) + _sums(1 - coins, other, metrics) for coins in _coins(items, resamples, seed)]
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
    """How often each item is in each resample: (B, N) in slices of B."""
    rng = np.random.default_rng(seed)
    for size in _slices(items, resamples):
        drawn = rng.choice(items, size=(size, items), replace=True)
        drawn += items * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * items).reshape(size, items).astype(np.float64)


def _coins(items: int, resamples: int, seed: int) -> Iterator[Array]:
    """Fair coins (B, N) in slices of B."""
    rng = np.random.default_rng(seed)
    for size in _slices(items, resamples):
        yield rng.integers(2, size=(size, items), dtype=bool).astype(np.float64)


def _slices(items: int, resamples: int) -> Iterator[int]:
    """Sizes that sum to ``resamples``. Multiples of 32, for numpy draws 32 coins at a time and drops the
    rest: only then is the stream of slices the stream of one draw."""
    size = max(_CELLS // items // 32, 1) * 32
    for start in range(0, resamples, size):
        yield min(size, resamples - start)


def interval(values: Array) -> tuple[float, float]:
    """The middle 95 % of resampled values."""
    ranked = np.sort(values)
    cut = len(ranked) // 40
    return float(ranked[cut]), float(ranked[-cut - 1])


def p_value(chance: Array, difference: float) -> float:
    """How often chance alone reaches the difference; one more in both counts, as sacrebleu does. No
    difference is not evidence: 1.

    sacrebleu counts what exceeds it. Where few items differ, most shuffles give the very same difference, and two items
    that happen to agree would look certain.
    """
    if difference == 0:
        return 1.0
    # The sums of a shuffle round differently from those of the systems: what is equal but for that is equal.
    reaching = int(np.sum(chance >= abs(difference) * (1 - 1e-9)))
    return (reaching + 1) / (len(chance) + 1)
