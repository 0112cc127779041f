"""Thresholds: of outputs that are whole, and of outputs some of which left something out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwindle.auditing.calibration import (
    check_share,
    conformal,
    conformal_without_gaps,
    kept_scores,
    share_of_gaps,
)

SCORES = st.lists(st.floats(-10, 10), min_size=25, max_size=60).map(sorted)


def mixture(
    gaps: float, count: int = 4000, distance: float = 4.0
) -> tuple[list[float], list[float]]:
    """Scores of outputs of which a share left something out, and scores of deletions."""
    rng = np.random.default_rng(1)
    left_out = rng.random(count) < gaps
    return sorted(rng.normal(distance * left_out)), sorted(rng.normal(distance, size=count))


@pytest.mark.parametrize("gaps", [0.0, 0.05, 0.1, 0.3])
def test_outputs_that_left_something_out_do_not_raise_the_threshold(gaps):
    scores, deletions = mixture(gaps)
    assert share_of_gaps(scores, deletions) == pytest.approx(gaps, abs=0.015)
    # The normal distribution is above 1.645 with a chance of 5 %.
    assert conformal_without_gaps(scores, deletions, 0.05) == pytest.approx(1.645, abs=0.2)
    if gaps >= 0.05:
        assert conformal(scores, 0.05) > 2.2


def test_deletions_that_score_as_outputs_do_change_nothing():
    scores, _ = mixture(0.0, 200)
    assert conformal_without_gaps(scores, scores, 0.05) == conformal(scores, 0.05)
    assert conformal_without_gaps(scores, [s - 3 for s in scores], 0.05) == conformal(scores, 0.05)


@given(SCORES, SCORES, st.floats(0.05, 0.5))
def test_never_above_the_threshold_of_all_outputs(scores, deletions, share):
    assert conformal_without_gaps(scores, deletions, share) <= conformal(scores, share)
    assert conformal_without_gaps(scores, [], share) == conformal(scores, share)


def test_too_few_outputs_for_the_share():
    assert math.isinf(conformal_without_gaps([1.0, 2.0], [3.0], 0.05))


def test_as_many_as_are_kept_spread_evenly():
    kept = kept_scores([float(n) for n in range(10_000)])
    assert (len(kept), kept[0], kept[-1]) == (2000, 0.0, 9995.0)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1e-300, math.nan, math.inf])
def test_what_is_no_share_is_refused(share):
    with pytest.raises(ValueError, match=r"pass a share between 0 and 1, such as 0\.05"):
        check_share(share)
    check_share(0.001)
