"""Each g: its formula, its slope, and a gain that keeps its digits."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwindle import BoxCox, Identity, Log, Power
from tests.core.made import FUNCTIONS

amounts = st.floats(1e-6, 1)
coverages = st.floats(0, 50)
every_g = pytest.mark.parametrize("g", FUNCTIONS, ids=str)


def tensor(x: float, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor(x, dtype=dtype)


@pytest.mark.parametrize(
    ("g", "x", "expected"),
    [  # by hand
        (Log(), 1.0, math.log(2)),
        (Log(2), 3.0, 2.0),
        (Power(0.5), 3.0, 2.0),
        (Power(1.0), 3.0, 4.0),
        (BoxCox(0.5), 3.0, 2.0),
        (BoxCox(0), 1.0, math.log(2)),
        (BoxCox(1), 3.0, 3.0),
        (BoxCox(-1), 1.0, 0.5),
        (BoxCox(-2), 1.0, 3 / 8),
        (BoxCox(-0.5), 3.0, 1.0),
        (Identity(), 3.0, 3.0),
    ],
)
def test_value(g, x, expected):
    assert g.value(tensor(x)).item() == pytest.approx(expected, rel=1e-15)


@every_g
@given(covered=coverages, added=amounts)
def test_gain_is_the_difference_of_values(g, covered, added):
    c, a = tensor(covered), tensor(added)
    difference = g.value(c + a) - g.value(c)
    assert g.gain(c, a).item() == pytest.approx(difference.item(), rel=1e-6, abs=1e-13)


@every_g
@given(covered=coverages)
def test_slope_is_the_derivative_of_value(g, covered):
    c = tensor(covered).requires_grad_()
    (derivative,) = torch.autograd.grad(g.value(c).sum(), c)
    assert g.slope(c).item() == pytest.approx(derivative.item(), rel=1e-9)


@pytest.mark.parametrize("g", [g for g in FUNCTIONS if g.boxcox], ids=str)
@given(covered=coverages)
def test_boxcox_form_gives_the_slope(g, covered):
    s, p = g.boxcox
    assert g.slope(tensor(covered)).item() == pytest.approx(s * (1 + covered) ** (p - 1), rel=1e-12)


@every_g
def test_gradients_of_gain(g):
    c = torch.tensor([0.0, 0.3, 7.0], dtype=torch.float64, requires_grad=True)
    a = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda c, a: g.gain(c, a) + 0 * c, (c, a))


@pytest.mark.parametrize("g", [Identity(), BoxCox(1), Power(1)], ids=str)
def test_plain_special_cases_are_exact(g):
    a = torch.rand(100)
    assert torch.equal(g.gain(torch.rand(100), a), a)


@given(p=st.floats(-8, 1), q=st.floats(-8, 1), covered=coverages, added=amounts)
def test_boxcox_has_unit_slope_and_gains_more_with_a_larger_p(p, q, covered, added):
    p, q = min(p, q), max(p, q)
    assert BoxCox(p).slope(tensor(0.0)).item() == 1
    less, more = (BoxCox(x).gain(tensor(covered), tensor(added)).item() for x in (p, q))
    assert 0 < less <= more * (1 + 1e-9)
    assert more <= added * (1 + 1e-9)


@given(p=st.floats(-8, -1e-3), looks=st.lists(amounts, min_size=1, max_size=40))
def test_below_the_logarithm_a_position_has_a_budget(p, looks):
    """However often it is attended to, its weights add up to less than 1 / |p| (Eq. 4), and to what
    g says."""
    g, coverage, given = BoxCox(p), 0.0, 0.0
    for added in looks:
        given += g.gain(tensor(coverage), tensor(added)).item()
        coverage += added
    assert given < g.limit * (1 + 1e-12) == -1 / p * (1 + 1e-12)
    assert given == pytest.approx(g.value(tensor(coverage)).item(), rel=1e-9)


def test_a_second_look_gives_less_the_lower_p_is():
    """A word that was copied once has a coverage of 1. The shares that docs/EQUATIONS.md prints."""
    one = tensor(1.0)
    shares = [
        (BoxCox(p).gain(one, one) / BoxCox(p).gain(0 * one, one)).item() for p in (1, 0, -1, -2, -4)
    ]
    assert shares == pytest.approx([1, 0.585, 1 / 3, 0.185, 0.0535], abs=5e-4)


@pytest.mark.parametrize("p", [0.0, 1e-300, 1e-15, 1e-11, 1e-6, -1e-300, -1e-15, -1e-11, -1e-6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_boxcox_tends_to_the_log(p, dtype):
    c, a = tensor(3.0, dtype), tensor(0.25, dtype)
    assert BoxCox(p).gain(c, a).item() == pytest.approx(Log().gain(c, a).item(), rel=1e-5)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Log(1), "above 1"),
        (lambda: Log(0.5), "above 1"),
        (lambda: Log(math.nan), "above 1"),
        (lambda: Log(math.inf), "finite"),
        (lambda: Power(0), r"\(0, 1\]"),
        (lambda: Power(1.01), r"\(0, 1\]"),
        (lambda: Power(math.nan), r"\(0, 1\]"),
        (lambda: BoxCox(1.5), "at most 1"),
        (lambda: BoxCox(-math.inf), "at most 1"),
        (lambda: BoxCox(math.nan), "at most 1"),
    ],
)
def test_parameters_outside_their_range(make, said):
    with pytest.raises(ValueError, match=said):
        make()
