"""Strict reading: what is right comes back equal, what is wrong is named."""

from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwindle.runs import schema


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    kind: Literal["adam", "adagrad"] = "adam"

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ValueError("the rate is negative: give 0 or more")


@dataclass(frozen=True)
class Outer:
    name: str
    steps: int | None = None
    inner: Inner = field(default_factory=Inner)
    maybe: Inner | None = None
    words: list[str] = field(default_factory=list)
    pair: tuple[float, ...] = ()
    figures: dict[str, float] = field(default_factory=dict)
    flag: bool = False


def read(text: str) -> Outer:
    return schema.parse(Outer, schema.load(text, "x.yaml"))


def test_everything_that_is_right_is_read():
    text = (
        "name: a\nsteps: 3\ninner: {rate: 1, kind: adagrad}\nmaybe: {rate: 3e-5}\nwords: [x, y]\n"
        "pair: [0.9, 1]\nfigures: {rouge1: 40}\nflag: true\n"
    )
    outer = read(text)
    assert outer == Outer(
        "a", 3, Inner(1.0, "adagrad"), Inner(3e-5), ["x", "y"], (0.9, 1.0), {"rouge1": 40.0}, True
    )
    assert type(outer.inner.rate) is float


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nam: a", "no key is called nam: did you mean name?"),
        ("name: a\ninner: {rates: 1}", "no key is called inner.rates: did you mean inner.rate?"),
        ("name: a\nmaybe: {zzzzz: 1}", "no key is called maybe.zzzzz: choose from rate, kind"),
        ("steps: 3", "name is missing: write text"),
        ("name: 3", "name is 3: write text"),
        ("name: a\nsteps: many", "steps is 'many': write a whole number or null"),
        ("name: a\nsteps: 2.5", "steps is 2.5: write a whole number or null"),
        ("name: a\nsteps: true", "steps is True: write a whole number or null"),
        ("name: a\nflag: 1", "flag is 1: write true or false"),
        ("name: a\ninner: 3", "inner is 3: write keys and values"),
        ("name: a\ninner: {kind: sgd}", "inner.kind is 'sgd': write one of adam, adagrad"),
        ("name: a\ninner: {rate: -1}", "inner: the rate is negative: give 0 or more"),
        ("name: a\nwords: x", "words is 'x': write a list, each text"),
        ("name: a\nwords: [x, 3]", r"words[1] is 3: write text"),
        ("name: a\nfigures: {rouge1: high}", "figures.rouge1 is 'high': write a number"),
        ("[1, 2]", "a recipe is [1, 2]: write keys and values there"),
        ("name: a\nname: b", "x.yaml has the key 'name' twice: keep one of them"),
        ("name: a\ninner: {rate: 1, rate: 2}", "x.yaml has the key 'rate' twice: keep one of them"),
        ("name: a: b", "x.yaml, line 1 is not YAML"),
        ("name: !!python/object/apply:os.system [ls]", "x.yaml, line 1 is not YAML"),
    ],
)
def test_what_is_wrong_is_named(text, complaint):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read(text)
    assert str(error.value).startswith(complaint)


@given(
    st.builds(
        Outer,
        st.text(),
        st.none() | st.integers(),
        st.builds(Inner, st.floats(0, 1e9), st.sampled_from(["adam", "adagrad"])),
        st.none() | st.builds(Inner),
        st.lists(st.text()),
        st.lists(st.floats(allow_nan=False)).map(tuple),
        st.dictionaries(st.text(), st.floats(allow_nan=False)),
        st.booleans(),
    )
)
def test_what_is_written_is_read_back(outer):
    assert schema.parse(Outer, schema.load(schema.dump(schema.plain(outer)), "it")) == outer


def test_numbers_with_an_exponent_are_numbers():
    assert schema.load("[1e-4, 3E5, -2e+1, .5e3, 1e-4x]", "it") == [
        1e-4,
        3e5,
        -20.0,
        500.0,
        "1e-4x",
    ]
