"""Every p-value that the project prints, on systems that differ by chance alone: below 0.05 one
time in twenty."""

import random

import numpy as np
import pytest

from dwindle.metrics import significance
from dwindle.metrics.seeds import differences
from dwindle.study import tally
from tests.metrics import nulls
from tests.metrics.nulls import LEVEL, NUMBER, Population, at_most

TRIALS, ITEMS, RESAMPLES = 300, 60, 200
METRICS = ["rouge1", "chrf", "repetition1", "repetition2", "bleu"]


@pytest.fixture(scope="module")
def population():
    return Population(METRICS, size=200)


def test_compare(population):
    """Bootstrap and randomisation of every metric, and both after Holm's correction over three
    equal systems."""
    found = [
        significance.compare(a, [b], population.metrics, RESAMPLES, trial)[0]
        for trial, (a, b) in enumerate(population.pairs(TRIALS, ITEMS, seed=1))
    ]
    for name in ("p_bootstrap", "p_randomisation"):
        p = np.array([[getattr(test, name) for test in row] for row in found])  # (trials, metrics)
        hits = dict(
            zip([metric.name for metric in population.metrics], (p < LEVEL).sum(0), strict=True)
        )
        assert max(hits.values()) <= at_most(TRIALS), (
            f"{name}: of {TRIALS} null pairs, below {LEVEL}: {hits}"
        )
        families = [
            min(significance.holm(three)) < LEVEL for three in p[:, 0].reshape(-1, 3).tolist()
        ]
        assert sum(families) <= at_most(len(families))


def test_sacrebleu_s_bootstrap_has_twice_its_rate(population):
    """Why it is only an option."""
    metrics = population.metrics[:2]
    hits = [
        test.p_bootstrap < LEVEL
        for trial, (a, b) in enumerate(population.pairs(200, ITEMS, seed=1))
        for test in significance.compare(a, [b], metrics, RESAMPLES, trial, "sacrebleu")[0]
    ]
    assert np.mean(hits) > 1.7 * LEVEL


@pytest.mark.parametrize(
    ("seeds", "of_seed", "of_item"),
    [(1, 0.0, 1.0), (2, 0.3, 0.5), (3, 0.0, 1.0), (3, 1.0, 0.1), (5, 0.3, 0.5)],
)
def test_seeds(seeds, of_seed, of_item):
    """The test of arenas and reports. One seed says nothing of other trainings, so there only items
    may vary."""
    rng = np.random.default_rng([seeds, int(10 * of_seed)])
    hits = 0
    for _ in range(TRIALS):
        a, b = (nulls.trained(rng, seeds, of_seed=of_seed, of_item=of_item) for _ in range(2))
        hits += differences(a, [b], [NUMBER], RESAMPLES)[0][0].p < LEVEL
    assert hits <= at_most(TRIALS)


@pytest.mark.parametrize("agree", [0.0, 0.8])
def test_study(agree):
    """The three tests of a comparison and the one of a verdict, with raters who judge alone and
    raters who agree."""
    rng = random.Random(3)
    trials, hits = TRIALS, dict.fromkeys(("judgements", "items", "clustered", "verdicts"), 0)
    for _ in range(trials):
        votes = nulls.votes(rng, items=40, raters=3, agree=agree)
        found, verdicts = tally.compare("better", votes), tally.verdicts("true", votes)
        for name in ("judgements", "items", "clustered"):
            hits[name] += getattr(found, f"p_{name}") < LEVEL
        hits["verdicts"] += verdicts.p_clustered < LEVEL
    naive = hits.pop("judgements")
    assert max(hits.values()) <= at_most(trials), hits
    # The sign test over judgements takes raters as independent; the page says that it is too small
    # where they agree.
    assert naive <= at_most(trials) if not agree else naive > 2 * LEVEL * trials
