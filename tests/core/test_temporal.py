"""Temporal attention against a loop written from the equations of Paulus et al., Eqs. 2-4."""

import math

import pytest
import torch

from dwindle.core.coverage import Coverage
from dwindle.core.notation import rule
from dwindle.core.temporal import Temporal


def loop(scores):
    """(T, S) of scores (T, S), one number at a time."""
    rows = []
    for t, e in enumerate(scores.tolist()):
        past = [sum(math.exp(scores[j, i]) for j in range(t)) for i in range(len(e))]
        divided = [math.exp(x) / (p if t else 1) if x > -math.inf else 0.0 for x, p in zip(e, past, strict=True)]
        rows.append([x / sum(divided) for x in divided])
    return torch.tensor(rows, dtype=scores.dtype)


def made(rows=6, positions=5, masked=True):
    scores = torch.randn(2, 3, rows, positions, dtype=torch.float64) * 4
    if masked:
        scores[1, ..., -2:] = -math.inf
    return scores


def test_equals_the_loop():
    scores = made()
    rows, after = Temporal().rows(scores, None)
    for b in range(2):
        for h in range(3):
            assert torch.allclose(rows[b, h], loop(scores[b, h]))
    assert torch.allclose(after.total, rows.sum(-2))
    assert torch.allclose(rows.sum(-1), torch.ones(2, 3, 6, dtype=torch.float64))


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_any_split(cut):
    scores = made()
    whole, end = Temporal().rows(scores, None)
    first, between = Temporal().rows(scores[..., :cut, :], None)
    second, after = Temporal().rows(scores[..., cut:, :], between)
    assert torch.allclose(torch.cat([first, second], -2), whole)
    assert all(torch.allclose(x, y) for x, y in zip(after, end, strict=True))


def test_a_reset_cache_is_a_start():
    scores = made()
    assert torch.equal(Temporal().rows(scores, Coverage.none(scores))[0], Temporal().rows(scores, None)[0])


@pytest.mark.parametrize("low", [-65504.0, torch.finfo(torch.float32).min])
def test_masks_that_are_low_numbers(low):
    scores = made()
    other = scores.masked_fill(scores == -math.inf, low)
    assert torch.equal(Temporal().rows(other, None)[0], Temporal().rows(scores, None)[0])


def test_a_row_of_padding_is_skipped():
    """It attends to nothing, and the rows after it are as if it were not there."""
    scores = made()
    padded = torch.cat([scores[..., :2, :], torch.full_like(scores[..., :1, :], -math.inf), scores[..., 2:, :]], -2)
    rows = Temporal().rows(padded, None)[0]
    assert not rows[..., 2, :].any()
    assert torch.allclose(rows[..., [0, 1, 3, 4, 5, 6], :], Temporal().rows(scores, None)[0])


@pytest.mark.parametrize("masked", [False, True])
def test_gradients(masked):
    """Masked positions get none; the rest is what numbers say."""
    scores = made(4, 4, masked).requires_grad_()
    real = scores.detach() > -math.inf
    weight = torch.randn_like(scores)
    (Temporal().rows(scores, None)[0] * weight).sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert not scores.grad[~real].any()
    for index in [(0, 0, 0, 1), (0, 2, 2, 0), (1, 1, 3, 1)]:
        ends = []
        for change in (1e-6, -1e-6):
            moved = scores.detach().clone()
            moved[index] += change
            ends.append((Temporal().rows(moved, None)[0] * weight).sum())
        assert scores.grad[index] == pytest.approx(float(ends[0] - ends[1]) / 2e-6, abs=1e-6)


def test_large_scores_do_not_overflow():
    scores = made().float() * 100
    assert torch.allclose(
        Temporal().rows(scores, None)[0].double(), Temporal().rows(scores.double(), None)[0], atol=1e-4
    )


def test_its_name():
    assert rule("temporal") == Temporal()
    assert str(Temporal()) == "temporal"
    for text in ("temporal:log", "temporal+renormalise"):
        with pytest.raises(ValueError, match="temporal"):
            rule(text)
    with pytest.raises(ValueError, match="made from scores"):
        Temporal()(torch.rand(2, 3))
