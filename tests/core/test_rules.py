"""The laws of the rules, and their equality with the paper's equations written as loops."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwindle import BoxCox, Coverage, Dim, DyDim, Identity, Log, Plain, Power, certify, rule
from dwindle.core import reference
from tests.core.made import FUNCTIONS, RULES, attention, attentions

every_rule = pytest.mark.parametrize("rule", RULES, ids=str)
every_g = pytest.mark.parametrize("g", FUNCTIONS, ids=str)
PAIRS = [DyDim(Log(), Power(0.5)), DyDim(BoxCox(0.6), BoxCox(0.65)), DyDim(BoxCox(0.1), Identity())]
every_pair = pytest.mark.parametrize("pair", PAIRS, ids=str)


def slow(r, a):
    """The reference weights of (T, S) attention."""
    weight = (
        partial(reference.dim, r.g) if isinstance(r, Dim) else partial(reference.dydim, r.g1, r.g2)
    )
    return reference.rows(weight, a)


# ------------------------------------------------------------------ equal to the equations


@pytest.mark.parametrize("r", [*map(Dim, FUNCTIONS), *PAIRS], ids=str)
def test_weights_and_gradients_equal_the_reference(r):
    a = attention(6, 4).requires_grad_()
    weights, coverage = r(a)
    expected = slow(r, a)
    torch.testing.assert_close(weights, expected, rtol=1e-9, atol=1e-13)
    torch.testing.assert_close(
        coverage.total, torch.stack([reference.coverage(a, i, 5) for i in range(4)])
    )

    upstream = torch.randn_like(expected)
    (fast,) = torch.autograd.grad((weights * upstream).sum(), a)
    (slowly,) = torch.autograd.grad((expected * upstream).sum(), a)
    torch.testing.assert_close(fast, slowly, rtol=1e-8, atol=1e-10)


@every_rule
def test_gradcheck_also_through_a_given_coverage(rule):
    # distinct: no ties
    a = (0.05 + 0.9 * torch.rand(2, 3, 4, 3, dtype=torch.float64)).requires_grad_()
    heads = 1 if rule.share_heads else 3
    total = torch.rand(2, heads, 3, dtype=torch.float64, requires_grad=True)
    peak = (0.5 * torch.rand(2, heads, 3, dtype=torch.float64)).requires_grad_()
    if getattr(rule, "detach_gate", False):
        rule = replace(rule, detach_gate=False)  # a detached gate is by design not the gradient

    def both(a, total, peak):
        weights, after = rule(a, Coverage(total, peak))
        return weights, after.total, after.peak

    assert torch.autograd.gradcheck(both, (a, total, peak))


def test_the_gate_has_a_gradient_unless_detached():
    a = torch.tensor([[0.6], [0.3]], dtype=torch.float64, requires_grad=True)
    last = [
        torch.autograd.grad(DyDim(Log(), Power(0.5), detach_gate=d)(a)[0][-1].sum(), a)[0][0].item()
        for d in (False, True)
    ]
    # dw/dP = gain1 - gain2 at coverage 0.6, and P is the first attention itself
    c, x = torch.tensor(0.6, dtype=torch.float64), torch.tensor(0.3, dtype=torch.float64)
    through_gate = (Log().gain(c, x) - Power(0.5).gain(c, x)).item()
    assert last[0] - last[1] == pytest.approx(through_gate, rel=1e-12)


@every_pair
def test_detaching_the_gate_changes_no_weight(pair):
    a = attention(2, 3, 5, 4)
    assert torch.equal(pair(a)[0], replace(pair, detach_gate=True)(a)[0])


# ------------------------------------------------------------------ the split law


@every_rule
@given(a=attentions(), cuts=st.lists(st.integers(0, 7), max_size=4))
def test_any_split_of_the_rows_gives_the_same(rule, a, cuts):
    whole, after = rule(a)
    parts, coverage = [], None
    edges = [0, *sorted(min(c, a.shape[-2]) for c in cuts), a.shape[-2]]
    for start, stop in pairwise(edges):
        weights, coverage = rule(a[..., start:stop, :], coverage)
        parts.append(weights)
    torch.testing.assert_close(torch.cat(parts, dim=-2), whole, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(coverage.total, after.total)
    torch.testing.assert_close(coverage.peak, after.peak)


@every_rule
def test_any_split_gives_the_same_gradient(rule):
    a = attention(2, 3, 5, 4).requires_grad_()
    upstream = torch.randn_like(a)
    (whole,) = torch.autograd.grad((rule(a)[0] * upstream).sum(), a)
    first, coverage = rule(a[..., :2, :])
    second, _ = rule(a[..., 2:, :], coverage)
    (split,) = torch.autograd.grad((torch.cat([first, second], dim=-2) * upstream).sum(), a)
    torch.testing.assert_close(split, whole)


# ------------------------------------------------------------------ what the paper claims


@every_g
@given(a=attentions())
def test_effective_coverage_is_F_of_the_total(g, a):
    """Theorem 3.1."""
    weights, coverage = Dim(g)(a)
    F = g.value(coverage.total) - g.value(torch.zeros_like(coverage.total))
    torch.testing.assert_close(weights.sum(-2), F, rtol=1e-9, atol=1e-12)


@every_g
@given(a=attentions(s=5))
def test_dim_keeps_the_order_of_coverage(g, a):
    weights, coverage = Dim(g)(a)
    effective = weights.sum(-2)
    more = coverage.total.unsqueeze(-1) - coverage.total.unsqueeze(-2)
    gain = effective.unsqueeze(-1) - effective.unsqueeze(-2)
    assert (gain[more > 1e-9] > 0).all()


CERTIFIED = [r for r in RULES if certify(r).holds]


def test_some_rules_are_certified_and_some_are_not():
    assert Plain() in CERTIFIED
    assert rule("recommended:pg-dydim") in CERTIFIED
    assert rule("paper:pg-dydim") not in CERTIFIED
    assert len(CERTIFIED) >= len(FUNCTIONS) + 3


@pytest.mark.parametrize("rule", CERTIFIED, ids=str)
@given(
    past=st.lists(st.floats(0, 1), max_size=12),
    more=st.lists(st.floats(0, 1), max_size=12),
    x=st.floats(0, 1),
)
def test_later_identical_attention_never_gains(rule, past, more, x):
    def last(rows):  # as three heads alike, so that shared coverage is that of each
        a = torch.tensor(rows, dtype=torch.float64)[None, :, None].expand(3, -1, 1)
        return rule(a)[0][0, -1, 0].item()

    assert last([*past, *more, x]) <= last([*past, x]) * (1 + 1e-9) + 1e-15


# ------------------------------------------------------------------ edges and exactness


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("g", [Identity(), BoxCox(1)], ids=str)
def test_plain_attention_bit_for_bit(g, dtype):
    a = attention(2, 3, 6, 5, dtype=dtype)
    for r in (Plain(), Dim(g), DyDim(g, g), Dim(g, renormalise=True), Dim(g, share_heads=True)):
        weights, _ = r(a)
        assert torch.equal(weights, a)
        assert weights.dtype == dtype


@every_rule
@given(a=attentions(s=4))
def test_padding_stays_zero_and_weights_are_not_negative(rule, a):
    weights, _ = rule(a)
    assert (weights[a == 0] == 0).all()
    assert (weights >= 0).all()


@every_rule
@pytest.mark.parametrize(
    "shape", [(1, 1, 0, 3), (1, 2, 1, 3), (2, 1, 3, 0), (2, 2, 4, 1), (0, 1, 2, 3)]
)
def test_empty_and_single(rule, shape):
    a = attention(*shape).requires_grad_()
    weights, coverage = rule(a)
    assert weights.shape == a.shape
    assert coverage.total.shape == (shape[0], 1 if rule.share_heads else shape[1], shape[3])
    weights.sum().backward()
    assert torch.isfinite(a.grad).all()


@every_rule
def test_rows_of_nothing_change_nothing(rule):
    a = attention(2, 3, 4, 5)
    _, before = rule(a)
    nothing = torch.zeros(2, 3, 2, 5, dtype=torch.float64, requires_grad=True)
    weights, after = rule(nothing, before)
    assert not weights.any()
    torch.testing.assert_close(after.total, before.total)
    weights.sum().backward()
    assert torch.isfinite(nothing.grad).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("covered", [0.0, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("r", [*map(Dim, FUNCTIONS), *PAIRS], ids=str)
def test_half_precision_keeps_its_digits(r, covered, dtype):
    a = torch.softmax(2 * torch.randn(3, 20, 64), -1).to(dtype)
    start = Coverage(torch.full((3, 64), covered).double(), torch.full((3, 64), 0.3).double())
    exact = r(a.double(), start)[0]
    # less than that is nothing in this dtype
    whole = exact.abs().sum().clamp_min(torch.finfo(dtype).tiny)
    assert (r(a, start)[0].double() - exact).abs().sum() / whole < 0.01


# ------------------------------------------------------------------ options


def test_renormalise_keeps_the_mass_of_each_row():
    a = attention(2, 3, 6, 5)
    weights, _ = Dim(Log(), renormalise=True)(a)
    torch.testing.assert_close(weights.sum(-1), a.sum(-1))
    plain, _ = Dim(Log())(a)
    share = weights / weights.sum(-1, keepdim=True)
    torch.testing.assert_close(
        share.nan_to_num(), (plain / plain.sum(-1, keepdim=True)).nan_to_num()
    )


def test_shared_heads_use_the_coverage_of_their_mean():
    a = attention(2, 3, 6, 5)
    weights, coverage = Dim(Log(), share_heads=True)(a)
    mean = a.mean(1, keepdim=True)
    before = mean.cumsum(-2) - mean
    torch.testing.assert_close(weights, Log().gain(before.expand_as(a), a))
    torch.testing.assert_close(coverage.total, mean.sum(-2))


def test_protected_positions_keep_their_plain_weight():
    a = attention(2, 3, 6, 5)
    plain, _ = Dim(Log())(a)
    for r, mask in (
        (Dim(Log(), protect=(0, -1)), None),
        (Dim(Log(), protect="special"), torch.tensor([True, False, False, False, True])),
        (Dim(Log(), protect=(0,)), torch.tensor([False, False, False, False, True])),
    ):
        weights, _ = r(a, protected=mask)
        assert torch.equal(weights[..., [0, 4]], a[..., [0, 4]])
        assert torch.equal(weights[..., 1:4], plain[..., 1:4])


def test_protection_can_differ_by_item():
    a = attention(2, 3, 6, 5)
    mask = torch.zeros(2, 1, 5, dtype=torch.bool)
    mask[0, 0, 2] = mask[1, 0, 4] = True
    weights, _ = Dim(Log(), protect="special")(a, protected=mask)
    assert torch.equal(weights[0, ..., 2], a[0, ..., 2])
    assert torch.equal(weights[1, ..., 4], a[1, ..., 4])
    assert not torch.equal(weights[1, ..., 2], a[1, ..., 2])


def test_renormalising_leaves_protected_positions_alone():
    a = attention(2, 3, 6, 5)
    weights, _ = Dim(Log(), renormalise=True, protect=(0,))(a)
    assert torch.equal(weights[..., 0], a[..., 0])
    torch.testing.assert_close(weights.sum(-1), a.sum(-1))


def test_a_protected_position_beyond_a_short_source_is_no_error():
    assert torch.equal(
        Dim(Log(), protect=(7, -9))(attention(3, 2))[0], Dim(Log())(attention(3, 2))[0]
    )


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf")])
def test_bad_values_are_found_when_asked(bad):
    a = attention(2, 3)
    a[1, 1] = bad
    with pytest.raises(ValueError, match="attention has a"):
        Dim(Log())(a, check=True)


def test_good_values_pass_the_check():
    Dim(Log())(attention(2, 3), check=True)


def test_a_coverage_of_another_shape():
    _, coverage = Dim(Log())(attention(2, 3, 4, 5))
    with pytest.raises(
        ValueError, match=r"coverage has shape \(2, 3, 5\), but this attention needs \(3, 3, 5\)"
    ):
        Dim(Log())(attention(3, 3, 1, 5), coverage)


def test_special_protection_needs_its_mask():
    with pytest.raises(ValueError, match="pass protected="):
        Dim(Log(), protect="special")(attention(2, 3))


def test_shared_heads_need_heads():
    with pytest.raises(ValueError, match="share_heads needs"):
        Dim(Log(), share_heads=True)(attention(2, 3))
