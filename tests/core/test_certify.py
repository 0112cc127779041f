"""Proofs where there are proofs, counter-examples where the claim is false."""

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwindle import BoxCox, Concave, Dim, DyDim, Identity, Log, Plain, Power, certify, rule
from dwindle.core.rules import RowRule
from tests.core.made import FUNCTIONS


def returned(rule, past, added):
    """What ``added`` returns after ``past``, by running the rule on one position."""
    a = torch.tensor([*past, added], dtype=torch.float64)[:, None]
    return rule(a)[0][-1, 0].item()


@pytest.mark.parametrize("r", [Plain(), *(Dim(g) for g in FUNCTIONS if g.boxcox)], ids=str)
def test_dim_is_proved(r):
    certificate = certify(r)
    assert certificate.holds
    assert all(claim.holds and claim.proved for claim in certificate.claims)


@pytest.mark.parametrize(
    "name",
    [
        "paper:pg-dydim",
        "paper:bert-dydim",
        "paper:bart-dydim",
        "paper:nmt-dydim",
        "paper:image-dydim",
    ],
)
def test_every_dynamic_setting_of_the_paper_breaks_its_theorem(name):
    certificate = certify(name)
    example = certificate.counterexample
    assert not certificate.holds
    assert not certificate.diminishing.holds
    past = [x for (x,) in example.past]
    then = [x for (x,) in example.then]
    (added,) = example.added
    # the printed numbers are what the rule really does, and the return grew
    assert returned(certificate.rule, past, added) == pytest.approx(example.first, rel=1e-9)
    assert returned(certificate.rule, past + then, added) == pytest.approx(example.later, rel=1e-9)
    assert example.later > example.first


@pytest.mark.parametrize(
    ("name", "steps"), [("paper:pg-dydim", 1), ("paper:bert-dydim", 1), ("paper:bart-dydim", 7)]
)
def test_the_counterexample_is_the_shortest(name, steps):
    example = certify(name).counterexample
    assert len(example.past + example.then) == steps


@given(seed=st.integers(0, 10**6))
def test_no_shorter_counterexample_for_the_papers_bart_setting(seed):
    """Random sequences of fewer than seven steps, against the claim that seven are needed."""
    r = rule("paper:bart-dydim")
    a = torch.rand(500, 6, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    _, short = r(a[:, :-1])
    _, long = r(a)
    x = torch.rand(500, 1, dtype=torch.float64)
    assert (r.weigh(x, *long) <= r.weigh(x, *short) * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    "r",
    [
        DyDim(BoxCox(0), BoxCox(0.5)),
        DyDim(BoxCox(0.6), BoxCox(0.65)),
        # the paper's pair the other way round: slopes ordered, not equal
        DyDim(Power(0.6), Power(0.65)),
        DyDim(Log(), Identity()),
    ],
    ids=str,
)
def test_ordered_slopes_are_proved(r):
    certificate = certify(r)
    assert certificate.holds
    assert certificate.diminishing.proved
    assert "g1'(x) <= g2'(x)" in certificate.diminishing.because


@pytest.mark.parametrize(("p1", "p2"), [(0.5, 0.0), (0.9, 0.2), (0.65, 0.6)])
def test_unit_slopes_the_wrong_way_round_fail(p1, p2):
    assert not certify(DyDim(BoxCox(p1), BoxCox(p2))).holds


def test_order_of_attention_matters_for_dydim():
    """The numbers of the note on set functions: [.9, .1] and [.1, .9] differ."""
    claim = certify("dydim:log,power(0.5)").set_function
    assert not claim.holds
    assert "0.4281" in claim.because
    assert "0.4375" in claim.because
    assert certify(DyDim(Log(), Log())).set_function.holds


def test_renormalised_returns_can_grow():
    certificate = certify("dim:log+renormalise+protect(special)")
    assert not certificate.holds
    example = certificate.counterexample
    rows = torch.tensor([*example.then, example.added], dtype=torch.float64)
    bare = replace(certificate.rule, protect=())
    assert bare(rows)[0][-1, 0].item() == pytest.approx(example.later)
    assert bare(rows[1:])[0][0, 0].item() == pytest.approx(example.first)


def test_shared_heads_diminish_but_do_not_telescope():
    certificate = certify("dim:log+share_heads")
    assert certificate.holds
    assert not certificate.set_function.holds


@dataclass(frozen=True)
class Saturating(Concave):
    """1 - exp(-x): concave, of no Box-Cox form."""

    formula = "1 - exp(-x)"

    def value(self, x):
        return -torch.expm1(-x)

    def slope(self, x):
        return torch.exp(-x)

    def gain(self, covered, added):
        return torch.exp(-covered) * -torch.expm1(-added)


@dataclass(frozen=True)
class Bent(Saturating):
    """x^2 / 2: not concave."""

    def gain(self, covered, added):
        return added * covered + added**2 / 2


@dataclass(frozen=True)
class Falling(Saturating):
    def gain(self, covered, added):
        return -added


def test_a_function_of_the_user_is_searched_not_proved():
    certificate = certify(Dim(Saturating()))
    assert certificate.holds
    assert not certificate.concave.proved
    assert "no counter-example found" in str(certificate.diminishing)
    assert rule("dim:saturating") == Dim(Saturating())


def test_a_dynamic_pair_of_unknown_form_is_searched():
    assert not certify(DyDim(Identity(), Saturating())).holds
    assert certify(DyDim(Saturating(), Identity())).holds


@pytest.mark.parametrize("g", [Bent(), Falling()], ids=str)
def test_a_function_that_is_not_concave_is_caught(g):
    certificate = certify(Dim(g))
    assert not certificate.holds
    assert not certificate.concave.holds
    assert "adding 0.1" in certificate.concave.because


def test_it_prints_what_it_found():
    text = str(certify("paper:image-dydim"))
    assert "does NOT have diminishing returns" in text
    assert "0.5 x 98, 1" in text
    first, later = text.split(" returns 0.03")[1][:4], text.split("it returns 0.03")[1][:4]
    assert first != later  # enough digits to see the difference


@dataclass(frozen=True)
class Fading(RowRule):
    """A rule that ``certify`` has no proof for: its weights fall with the peak."""

    def weigh(self, added, covered, peak):
        return added / (1 + peak)

    @property
    def _uses_peak(self) -> bool:
        return True


def test_nothing_is_proved_of_a_rule_that_is_not_known():
    certificate = certify(Fading())
    assert not certificate.set_function.holds
    assert "Order matters" in certificate.set_function.because
    assert not certificate.diminishing.proved
