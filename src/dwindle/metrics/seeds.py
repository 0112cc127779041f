"""Is the difference real when every system was trained several times? Items and seeds both vary.

Each seed of a system gives outputs for the same items. The rows of an item are averaged over the
seeds, and the difference of two systems is the difference of their values on averaged rows (for a
mean of items that is the mean over seeds; for BLEU, the score of all seeds' outputs together). Two
things could have come out otherwise:

- the items: a paired bootstrap over them, as everywhere in this room;
- the seeds: the differences of the S pairs of seeds have a mean whose standard error is sd /
  sqrt(S), and a mean of S numbers strays from the truth like a t variable with S - 1 degrees of
  freedom.

A resample adds both. Its middle 95 % is the interval, and how often it strays as far as the
difference is the p-value. One seed has no second part: then the result is about those very models,
not about the way of training them, and the p-value is that of approximate randomisation, as
`significance.compare` has it. Reads no text.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dwindle.metrics import significance
from dwindle.metrics.difference import Difference
from dwindle.metrics.score import Array, Metric, Statistics
from dwindle.runfiles.outputs import same_items


def average(runs: Sequence[Statistics]) -> Statistics:
    """The statistics of one system whose rows are the mean of those of its seeds."""
    for other in runs[1:]:
        same_items(runs[0].system, other.system)
    return runs[0].mean(runs[1:])


def intervals(
    runs: Sequence[Statistics],
    metrics: Sequence[Metric],
    resamples: int = significance.RESAMPLES,
    seed: int = significance.SEED,
) -> list[tuple[float, float]]:
    """The 95 % interval of each metric of one system, over items and, if several, seeds."""
    whole = average(runs)
    drawn = significance.resampled(whole, metrics, resamples, seed)
    noise = [
        _seed_noise(np.array([run.value(metric) for run in runs]), resamples, seed)
        for metric in metrics
    ]
    return [
        significance.interval(values + strayed)
        for values, strayed in zip(drawn, noise, strict=True)
    ]


def differences(
    base: Sequence[Statistics],
    others: Sequence[Sequence[Statistics]],
    metrics: Sequence[Metric],
    resamples: int = significance.RESAMPLES,
    seed: int = significance.SEED,
) -> list[list[Difference]]:
    """Compare each system with the base, seed by seed: one list a system, one entry a metric."""
    if any(len(other) != len(base) for other in others):
        raise ValueError("every system needs as many seeds as the base: run the missing ones")
    table = [_against(base, other, metrics, resamples, seed) for other in others]
    for k in range(len(metrics)):
        corrected = significance.holm([p for row in table if (p := row[k].p) is not None])
        for row, p in zip(table, corrected, strict=True):
            row[k] = replace(row[k], p_holm=p)
    return table


def _against(
    base: Sequence[Statistics],
    other: Sequence[Statistics],
    metrics: Sequence[Metric],
    resamples: int,
    seed: int,
) -> list[Difference]:
    ours, theirs = average(base), average(other)
    same_items(ours.system, theirs.system)
    a = significance.resampled(ours, metrics, resamples, seed)
    b = significance.resampled(theirs, metrics, resamples, seed)
    shuffled = (
        significance.shuffled_differences(ours, theirs, metrics, resamples, seed)
        if len(base) == 1
        else None
    )
    found = []
    for k, metric in enumerate(metrics):
        pairs = np.array(
            [y.value(metric) - x.value(metric) for x, y in zip(base, other, strict=True)]
        )
        difference = theirs.value(metric) - ours.value(metric)
        strayed = b[k] - a[k] - difference + _seed_noise(pairs, resamples, seed)
        low, high = significance.interval(difference + strayed)
        chance = shuffled[k] if shuffled else np.abs(strayed)
        p = significance.p_value(chance, difference)
        wins = significance.wins(a[k], b[k], metric)
        found.append(
            Difference(metric.name, difference, low, high, p, p, wins, tuple(pairs.tolist()))
        )
    return found


def _seed_noise(each: Array, resamples: int, seed: int) -> Array:
    """Errors that the mean of these S numbers, one a seed, may have, drawn (B,) times."""
    if len(each) < 2:
        return np.zeros(resamples)
    rng = np.random.default_rng([seed, len(each)])
    error = each.std(ddof=1) / np.sqrt(len(each))
    return np.asarray(error * rng.standard_t(len(each) - 1, resamples))
