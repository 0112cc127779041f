"""Log-odds from evidence, fitted to deletions, and those of items."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwindle.auditing.odds import POWER, RIDGE, fit, item_score, log_odds

TRUE = (-2.0, 1.5, -0.5)


def deletions(parts: int, seed: int = 1):
    """Evidence on parts (N, 2), and which are missing (N,), drawn with the log-odds of TRUE."""
    rng = np.random.default_rng(seed)
    evidence = rng.normal(size=(parts, 2))
    chance = 1 / (1 + np.exp(-(TRUE[0] + evidence @ TRUE[1:])))
    return evidence, rng.random(parts) < chance


def test_the_weights_that_made_the_data_are_found():
    assert fit([deletions(40_000)]) == pytest.approx(TRUE, abs=0.06)


def test_the_fit_is_where_the_gradient_of_the_loss_is_zero():
    """The slow twin: the loss, by automatic differentiation."""
    some = [deletions(300, 1), deletions(60, 2)]
    weights = torch.tensor(fit(some), dtype=torch.float64, requires_grad=True)
    losses = [
        torch.nn.functional.binary_cross_entropy_with_logits(
            weights[0] + torch.from_numpy(evidence) @ weights[1:],
            torch.from_numpy(missing).double(),
        )
        for evidence, missing in some
    ]
    (sum(losses) / 2 + 0.5e-5 * weights.square().sum()).backward()
    assert weights.grad.abs().max() < 1e-6  # weights are rounded to six places


def test_weights_are_drawn_towards_those_that_are_given():
    """The slow twin: the loss with that penalty, by automatic differentiation."""
    some, towards = deletions(300), np.array([3.0, 2.0])
    weights = torch.tensor(fit([some], towards, 0.1), dtype=torch.float64, requires_grad=True)
    evidence, missing = some
    loss = torch.nn.functional.binary_cross_entropy_with_logits(
        weights[0] + torch.from_numpy(evidence) @ weights[1:], torch.from_numpy(missing).double()
    )
    penalty = 0.05 * (weights[1:] - torch.from_numpy(towards)).square().sum()
    (loss + penalty + RIDGE / 2 * weights[0] ** 2).backward()
    assert weights.grad.abs().max() < 1e-6
    far, near = (np.abs(fit([some], towards, r)[1:] - towards).max() for r in (RIDGE, 1e4))
    assert near < 0.001 < 1 < far


def test_a_start_far_from_the_answer_is_no_trouble():
    """Whole steps of Newton's method from there lead away without end."""
    some = deletions(300)
    found = fit([some], np.array([40.0, -40.0]))
    assert found == pytest.approx(fit([some]), abs=0.02)


def test_kinds_count_alike_however_many_parts_they_have():
    few, many = deletions(100, 1), deletions(100, 2)
    thrice = tuple(np.concatenate([one] * 3) for one in many)
    assert fit([few, thrice]) == pytest.approx(fit([few, many]), abs=1e-5)


def test_evidence_that_separates_has_finite_weights():
    evidence = np.array([[0.0], [0.1], [5.0], [6.0]])
    weights = fit([(evidence, np.array([False, False, True, True]))])
    assert all(map(math.isfinite, weights))
    assert log_odds(torch.tensor([[5.5]]), weights) > 0 > log_odds(torch.tensor([[0.0]]), weights)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30), st.floats(0.1, 5), st.integers(0, 29))
def test_a_part_that_is_likelier_left_out_makes_the_item_so(scores, more, at):
    higher = list(scores)
    higher[at % len(scores)] += more
    before, after = (
        item_score(torch.tensor(some, dtype=torch.float64)) for some in (scores, higher)
    )
    assert after > before


def test_one_gap_is_not_diluted_by_what_was_heard():
    gap, heard = [4.0], [-8.0]
    short, long = (item_score(torch.tensor(heard * n + gap + heard * n)) for n in (2, 20))
    assert short - long == pytest.approx(0.5 * math.log(41 / 5), abs=0.02)
    assert long > item_score(torch.tensor([-2.0] * 5))


def test_an_items_score_by_hand():
    """Of two parts, each alone and smoothed with its neighbour, which at an end is itself."""
    alone, smoothed = (1.0, -3.0), (0.0, -2.0)
    odds = sum(math.exp(POWER * score) for score in (*alone, *smoothed))
    by_hand = math.log(odds) - 0.5 * math.log(2)
    assert item_score(torch.tensor(alone)) == pytest.approx(by_hand, abs=1e-6)


def test_without_parts_there_is_no_score():
    assert item_score(torch.zeros(0)) is None
