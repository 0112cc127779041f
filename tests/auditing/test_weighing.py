"""Heads by deletions, where it is known what each of them hears."""

import numpy as np
import torch

from dwindle.auditing.source import Part, ReadSource
from dwindle.auditing.weighing import Heard, auroc_of, weighed

PARTS = 10
SIGHT = 3.0
"""Strength with which a head shows, in its logarithms, what is missing."""


def item(rng: np.random.Generator, shown: list[float], disturbed: list[float]) -> Heard:
    """Peaks of as many heads as ``shown``; ``disturbed`` says how much of a common disturbance
    each of them has."""
    missing = rng.random(PARTS) < 0.2
    logs = rng.normal(size=(len(shown), PARTS))
    logs += np.outer(shown, missing) + np.outer(disturbed, rng.normal(size=PARTS))
    source = ReadSource(
        {}, tuple(Part(n, n + 1) for n in range(PARTS)), tuple(range(PARTS)), PARTS, PARTS
    )
    return Heard(source, torch.tensor(np.exp(-logs - 4)), missing)


def trials(shown: list[float], disturbed: list[float]) -> dict[str, list[Heard]]:
    rng = np.random.default_rng(1)
    return {
        kind: [item(rng, shown, disturbed) for _ in range(60)] for kind in ("sentences", "words")
    }


def test_the_head_that_hears_is_kept_alone_among_noise():
    kept, (weight,) = weighed(trials([0, SIGHT, 0, 0], [0, 0, 0, 0]))
    assert kept == [1]
    assert weight > 1


def test_heads_that_hear_a_little_are_kept_together():
    kept, weights = weighed(trials([1, 0, 1, 1], [0, 0, 0, 0]))
    assert kept == [0, 2, 3]
    assert max(weights) < 1.5 * min(weights)


def test_a_head_that_hears_only_what_disturbs_the_others_has_a_negative_weight():
    made = trials([1.5, 1.5, 0], [2, 2, 2])
    kept, weights = weighed(made)
    assert kept == [0, 1, 2]
    assert weights[0] > 0 < weights[1]
    assert weights[2] < 0
    for items in made.values():
        assert auroc_of(items, kept, weights) > auroc_of(items, [0, 1], [1, 1]) + 0.03


def test_no_more_than_eight_heads_are_kept():
    kept, weights = weighed(trials([1.0] * 12, [0.0] * 12))
    assert len(kept) == len(weights) == 8


def test_a_head_that_never_changes_does_no_harm():
    made = trials([SIGHT, 0], [0, 0])
    for items in made.values():
        for one in items:
            one.peaks[1] = 0.5
    assert weighed(made)[0] == [0]
