"""Rules as text, there and back."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwindle import BoxCox, Dim, DyDim, Identity, Log, Plain, Power, rule
from dwindle.core.notation import PRESETS
from tests.core.made import RULES

gs = st.one_of(
    st.just(Identity()),
    st.just(Log()),
    st.floats(1, 1e300, exclude_min=True).map(Log),
    st.floats(0, 1, exclude_min=True).map(Power),
    st.floats(0, 1).map(BoxCox),
)
options = st.fixed_dictionaries(
    {
        "renormalise": st.booleans(),
        "share_heads": st.booleans(),
        "protect": st.one_of(
            st.just("special"), st.lists(st.integers(-9, 9), max_size=3).map(tuple)
        ),
    }
)
rules = st.one_of(
    st.builds(lambda o: Plain(**o), options),
    st.builds(lambda g, o: Dim(g, **o), gs, options),
    st.builds(lambda g1, g2, d, o: DyDim(g1, g2, d, **o), gs, gs, st.booleans(), options),
)


@given(r=rules)
def test_every_rule_reads_back(r):
    assert rule(str(r)) == r


@pytest.mark.parametrize("r", RULES, ids=str)
def test_a_rule_is_returned_as_it_is(r):
    assert rule(r) is r


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", Plain()),
        ("dim:log", Dim(Log())),
        ("Dim: Log(2.2)", Dim(Log(2.2))),
        ("dydim:log,power(0.5)", DyDim(Log(), Power(0.5))),
        (
            "dydim:log,power(.5)+detach_gate+renormalise",
            DyDim(Log(), Power(0.5), True, renormalise=True),
        ),
        (
            "dim:boxcox(0)+share_heads+protect(0,-1)",
            Dim(BoxCox(0), share_heads=True, protect=(0, -1)),
        ),
        ("paper:bart-dim+protect(special)", Dim(Power(0.65), protect="special")),
        ("dim:log(1e+16)", Dim(Log(1e16))),
        # the paper's appendix A, as read in docs/EQUATIONS.md
        ("paper:pg-dim", Dim(Log())),
        ("paper:pg-dydim", DyDim(Log(), Power(0.5))),
        ("paper:bert-dim", Dim(Log(2.2))),
        ("paper:bert-dydim", DyDim(Log(2.2), Power(0.5))),
        ("paper:bart-dim", Dim(Power(0.65))),
        ("paper:nmt-dim", Dim(Power(0.65))),
        ("paper:bart-dydim", DyDim(Power(0.65), Power(0.6))),
        ("paper:nmt-dydim", DyDim(Power(0.65), Power(0.6))),
        ("paper:image-dim", Dim(Log(1.9))),
        ("paper:image-dydim", DyDim(Log(1.9), Log(1.95))),
    ],
)
def test_reading(text, expected):
    assert rule(text) == expected


def test_short_text():
    assert str(DyDim(Log(), Power(0.5), protect=(0, -1))) == "dydim:log,power(0.5)+protect(0,-1)"
    assert str(Dim(BoxCox(1))) == "dim:boxcox(1)"
    assert str(Dim(Log(math.e))) == "dim:log"


def test_every_preset_reads():
    assert all(rule(name) == r for name, r in PRESETS.items())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dmi:log", "did you mean 'dim:log'"),
        ("paper:bart-dydm", "did you mean 'paper:bart-dydim'"),
        ("dim:lgo", "did you mean 'log'"),
        ("dim:log+renormalize", "did you mean 'renormalise'"),
        ("dim:log+detach_gate", "unknown option 'detach_gate'"),
        ("dim:log+protect", r"did you mean 'protect\("),
        ("dim:log+protect(x)", r"did you mean 'protect\("),
        ("", "unknown rule ''"),
        ("plain:log", "unknown rule"),
        ("dim", "dim takes one function, not 0: write 'dim:log'"),
        ("dim:log,log", "dim takes one function, not 2"),
        ("dydim:log", "dydim takes two functions, not 1"),
        ("dim:power", r"power takes \(exponent\)"),
        ("dim:power(0.5,0.6)", r"power takes \(exponent\)"),
        ("dim:power(a)", "not a number"),
        ("dim:power(0.5", "closing bracket"),
        ("dim:power(2)", r"must be in \(0, 1\]"),
        ("dim:log(1)", "above 1"),
    ],
)
def test_bad_text_is_answered_with_what_to_write(text, said):
    with pytest.raises(ValueError, match=said):
        rule(text)


@given(text=st.text(alphabet="dimyplanog:(),.+0159-ers ", max_size=30))
def test_no_text_crashes_the_reader(text):
    try:
        read = rule(text)
    except ValueError:  # a sentence; anything else is a crash
        return
    assert rule(str(read)) == read
