"""A metric knows itself: title, direction, unit, decimals; numbers and signatures are written in
one way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwindle.metrics import catalogue
from dwindle.metrics.kind import Kind, split
from dwindle.metrics.table import number, p_value
from dwindle.runfiles.outputs import Item, outputs


@pytest.mark.parametrize(
    ("value", "decimals", "sign", "text"),
    [
        (40.698, 2, False, "40.70"),
        (-1.5, 1, True, "−1.5"),
        (0.0002, 4, True, "+0.0002"),
        (0.0002, 2, True, "+0.0002"),
        (0.004, 2, False, "0.004"),
        (-0.0000001, 2, True, "0.00"),
        (0, 2, True, "0.00"),
    ],
)
def test_a_number_is_written_in_one_way(value, decimals, sign, text):
    assert number(value, decimals, sign) == text


@given(st.floats(1e-4, 1e6), st.integers(0, 4))
def test_what_is_not_zero_does_not_read_as_zero(value, decimals):
    if value >= 10.0 ** -(decimals + 2):
        assert float(number(value, decimals)) > 0


def test_ciders_of_the_paper_are_told_apart():
    kind = catalogue.kind("cider:spaces")
    assert (kind.text(0.2547), kind.text(0.2549), kind.text(0.0002, sign=True)) == (
        "0.2547",
        "0.2549",
        "+0.0002",
    )


def test_every_metric_knows_which_way_is_better():
    better = {
        name: catalogue.kind(name).better
        for name in ("rouge1", "bleu:moses-de/short", "cider", "mover2:bert")
    }
    assert set(better.values()) == {1}
    assert {
        catalogue.kind(name).better for name in ("repetition2:micro", "omission", "layoutL-reverse")
    } == {-1}
    assert {
        catalogue.kind(name).better for name in ("novelty1", "entropy-raw", "length", "somebody's")
    } == {0}
    assert catalogue.kind("rouge1/gap").better == 0


def test_titles_say_option_unit_and_half():
    titles = {
        "rougeL": "ROUGE-L",
        "bleu:moses-de+compound/long": "BLEU moses-de+compound, long",
        "rouge1/gap": "ROUGE-1, long less short",
        "repetition3": "repeated 3-grams, %",
        "length:ratio": "length to reference",
        "length:source": "length to source",
        "entropy-raw": "H raw, nats",
        "somebody's": "somebody's",
    }
    assert {name: catalogue.title(name) for name in titles} == titles


def test_a_name_is_kind_option_and_half_even_if_the_option_is_a_path():
    for name in (
        "rouge1",
        "bleu:none/short",
        "mover1:a/b",
        "length:ratio",
        "entropy:x/short/y.npz/long",
    ):
        assert str(split(name)) == name
    assert split("mover1:models/bert") == ("mover1", "models/bert", "")


def test_what_is_measured_by_default_is_what_the_items_allow(tmp_path):
    bare = outputs("o", [Item("1", "a b c")])
    full = outputs("o", [Item("1", "a b c", ("a b",), "a b c d")], tmp_path)
    kinds = [
        {m.kind.name for m in catalogue.defaults(*systems)}
        for systems in ([bare], [full], [full, bare])
    ]
    assert (
        kinds[0] == kinds[2] == {*(f"repetition{n}" for n in (1, 2, 3, 4)), "length", "sentences"}
    )
    assert kinds[1] >= {"rouge1", "novelty5", "copied-share", "layoutL"}
    assert not any(m.kind.slow for m in catalogue.defaults(full))
    (tmp_path / "coverage.npz").touch()
    assert "entropy-raw" in {m.name for m in catalogue.defaults(full)}
    assert "entropy-raw" not in {m.name for m in catalogue.defaults(full, outputs("o", full.items))}


def test_a_signature_names_its_settings():
    one = catalogue.find(["rouge1:recall"])[0].signature.also(seed=1, bs=1000)
    assert (one.metric, one["measure"], one["bs"]) == ("rouge1:recall", "recall", "1000")
    assert str(one).startswith(
        "rouge1:recall|measure:recall|cut:reference-words|tok:rouge-1.5.5|stem:porter+wordnet2.0|"
    )


def test_p_values_and_arrows():
    assert [p_value(p) for p in (0.0004, 0.0123, 0.25)] == ["p < 0.001", "p = 0.012", "p = 0.25"]
    assert [Kind("x", "x", way).arrow for way in (1, 0, -1)] == ["↑", "", "↓"]
