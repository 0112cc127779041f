"""Temporal attention against a loop written from the equations of Paulus et al., Eqs. 2-4."""

import math

import pytest
import torch

import dwindle
from dwindle.core.coverage import Coverage
from dwindle.core.notation import row_rule, rule
from dwindle.core.temporal import Temporal, TemporalCoverage


def loop(scores):
    """(T, S) of scores (T, S), one number at a time."""
    rows = []
    for t, e in enumerate(scores.tolist()):
        past = [sum(math.exp(scores[j, i]) for j in range(t)) for i in range(len(e))]
        divided = [
            math.exp(x) / (p if t else 1) if x > -math.inf else 0.0
            for x, p in zip(e, past, strict=True)
        ]
        rows.append([x / sum(divided) for x in divided])
    return torch.tensor(rows, dtype=scores.dtype)


def made(rows=6, positions=5, masked=True):
    scores = torch.randn(2, 3, rows, positions, dtype=torch.float64) * 4
    if masked:
        scores[1, ..., -2:] = -math.inf
    return scores


def test_equals_the_loop():
    scores = made()
    rows, _, after = Temporal().attend(scores)
    for b in range(2):
        for h in range(3):
            assert torch.allclose(rows[b, h], loop(scores[b, h]))
    assert torch.allclose(after.total, rows.sum(-2))
    assert torch.allclose(rows.sum(-1), torch.ones(2, 3, 6, dtype=torch.float64))


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_any_split(cut):
    scores = made()
    _, whole, end = Temporal().attend(scores)
    _, first, between = Temporal().attend(scores[..., :cut, :])
    _, second, after = Temporal().attend(scores[..., cut:, :], between)
    assert torch.allclose(torch.cat([first, second], -2), whole)
    assert all(torch.allclose(x, y) for x, y in zip(after, end, strict=True))


def test_a_reset_cache_is_a_start():
    scores = made()
    zero = TemporalCoverage(*Coverage.none(scores))
    assert torch.equal(Temporal().attend(scores, zero).weights, Temporal().attend(scores).weights)


@pytest.mark.parametrize("low", [-65504.0, torch.finfo(torch.float32).min])
def test_masks_that_are_low_numbers(low):
    scores = made()
    other = scores.masked_fill(scores == -math.inf, low)
    assert torch.equal(Temporal().attend(other).weights, Temporal().attend(scores).weights)


def test_a_row_of_padding_is_skipped():
    """It attends to nothing, and the rows after it are as if it were not there."""
    scores = made()
    padded = torch.cat(
        [scores[..., :2, :], torch.full_like(scores[..., :1, :], -math.inf), scores[..., 2:, :]], -2
    )
    rows = Temporal().attend(padded).weights
    assert not rows[..., 2, :].any()
    assert torch.allclose(rows[..., [0, 1, 3, 4, 5, 6], :], Temporal().attend(scores).weights)


@pytest.mark.parametrize("masked", [False, True])
def test_gradients(masked):
    """Masked positions get none; the rest is what numbers say."""
    scores = made(4, 4, masked).requires_grad_()
    real = scores.detach() > -math.inf
    weight = torch.randn_like(scores)
    (Temporal().attend(scores).weights * weight).sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert not scores.grad[~real].any()
    for index in [(0, 0, 0, 1), (0, 2, 2, 0), (1, 1, 3, 1)]:
        ends = []
        for change in (1e-6, -1e-6):
            moved = scores.detach().clone()
            moved[index] += change
            ends.append((Temporal().attend(moved).weights * weight).sum())
        assert scores.grad[index] == pytest.approx(float(ends[0] - ends[1]) / 2e-6, abs=1e-6)


def test_large_scores_do_not_overflow():
    scores = made().float() * 100
    assert torch.allclose(
        Temporal().attend(scores).weights.double(),
        Temporal().attend(scores.double()).weights,
        atol=1e-4,
    )


def test_its_name():
    assert rule("temporal") == Temporal()
    assert str(Temporal()) == "temporal"
    for text in ("temporal:log", "temporal+renormalise"):
        with pytest.raises(ValueError, match="temporal"):
            rule(text)
    with pytest.raises(ValueError, match="works from scores"):
        row_rule("temporal")


@pytest.mark.parametrize("backend", [None, "eager"])
def test_in_the_attention_call(backend):
    """Whole, in steps and in place: as any rule."""
    q, k, v = (torch.randn(2, 3, n, 4, dtype=torch.float64) for n in (6, 5, 5))
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None]
    context, after = dwindle.attention(q, k, v, rule="temporal", mask=mask, backend=backend)
    scores = (q @ k.mT / 2).masked_fill(~mask, -math.inf)
    expected = Temporal().attend(scores)
    torch.testing.assert_close(context, expected.weights @ v)
    torch.testing.assert_close(after, expected.coverage)
    _, coverage = dwindle.attention(q[:, :, :2], k, v, rule="temporal", mask=mask, backend=backend)
    rest, same = dwindle.attention(
        q[:, :, 2:],
        k,
        v,
        rule="temporal",
        mask=mask,
        coverage=coverage,
        inplace=True,
        backend=backend,
    )
    torch.testing.assert_close(rest, context[:, :, 2:])
    torch.testing.assert_close(same, after)


def test_kernels_refuse_what_they_do_not_know():
    """Neither a rule of scores nor a g of the user's becomes plain attention."""
    q, k, v = (torch.randn(1, 1, 3, 4) for _ in range(3))
    for backend in ("cpu", "triton", "chunked"):
        with pytest.raises(ValueError, match="cannot do this"):
            dwindle.attention(q, k, v, rule="temporal", backend=backend)
