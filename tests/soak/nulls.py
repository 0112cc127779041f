"""Systems that differ by chance alone, from other populations than the tests have: every p-value
keeps its rate."""

from pathlib import Path
from random import Random

import numpy as np

from dwindle.metrics import significance
from dwindle.metrics.seeds import differences
from dwindle.study import tally
from tests.metrics import nulls
from tests.metrics.nulls import LEVEL, NUMBER, Population, at_most

TRIALS, RESAMPLES = 200, 200
DOUBT = 1e-6
"""A fair test fails here once in a million."""


def trial(random: Random, folder: Path) -> int:
    return random.choice([_compared, _seeds, _votes])(random)


def _compared(random: Random) -> int:
    names = random.sample(
        ["rouge1", "rouge2", "rougeL", "chrf", "repetition1", "repetition2", "bleu", "length"], 3
    )
    population = Population(names, size=random.choice([100, 200]), seed=random.randrange(1000))
    items = random.choice([20, 60, 150])
    found = [
        significance.compare(a, [b], population.metrics, RESAMPLES, number)[0]
        for number, (a, b) in enumerate(
            population.pairs(TRIALS, items, seed=random.randrange(1000))
        )
    ]
    for name in ("p_bootstrap", "p_randomisation"):
        p = np.array([[getattr(test, name) for test in row] for row in found])
        hits = dict(
            zip(
                [metric.name for metric in population.metrics],
                (p < LEVEL).sum(0).tolist(),
                strict=True,
            )
        )
        assert max(hits.values()) <= at_most(TRIALS, doubt=DOUBT), (
            f"{name}, {items} items of {TRIALS}: {hits}"
        )
    return 2 * len(population.metrics)


def _seeds(random: Random) -> int:
    seeds = random.randint(2, 5)
    of_seed = random.choice([0.0, 0.3, 1.0])
    of_item = random.choice([0.1, 0.5, 1.0])
    rng = np.random.default_rng(random.randrange(10**6))
    hits = 0
    for _ in range(TRIALS):
        a, b = (nulls.trained(rng, seeds, of_seed=of_seed, of_item=of_item) for _ in range(2))
        hits += differences(a, [b], [NUMBER], RESAMPLES)[0][0].p < LEVEL
    assert hits <= at_most(TRIALS, doubt=DOUBT), (
        f"{seeds} seeds, {of_seed}, {of_item}: {hits} of {TRIALS}"
    )
    return 1


def _votes(random: Random) -> int:
    agree = random.choice([0.0, 0.5, 0.9])
    items = random.choice([20, 60])
    raters = random.choice([2, 3, 5])
    hits = dict.fromkeys(("items", "clustered", "verdicts"), 0)
    for _ in range(TRIALS):
        drawn = nulls.votes(random, items=items, raters=raters, agree=agree)
        found = tally.compare("better", drawn)
        for name in ("items", "clustered"):
            hits[name] += getattr(found, f"p_{name}") < LEVEL
        hits["verdicts"] += tally.verdicts("true", drawn).p_clustered < LEVEL
    told = f"{items} items, {raters} raters, {agree} agree: {hits} of {TRIALS}"
    assert max(hits.values()) <= at_most(TRIALS, doubt=DOUBT), told
    return len(hits)
