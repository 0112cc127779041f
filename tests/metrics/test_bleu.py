"""BLEU against sacrebleu, and the Moses and compound text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from dwindle.metrics import bleu
from dwindle.metrics.score import reduce, score
from dwindle.runfiles.outputs import Item, outputs
from tests.metrics.texts import system


@pytest.mark.parametrize("option", ["", "none", "char", "intl"])
@pytest.mark.parametrize("references", [1, 3])
def test_equals_sacrebleu(option, references):
    made = system(40, references=references)
    flat = [item.hypothesis.replace("\n", " ") for item in made.items]
    streams = [
        [item.references[k].replace("\n", " ") for item in made.items] for k in range(references)
    ]
    expected = BLEU(tokenize=option or "13a").corpus_score(flat, streams).score
    assert score(made, bleu.metrics(option))[0].value == pytest.approx(expected, rel=1e-12)


counts = st.tuples(*[st.integers(0, 12)] * 4, *[st.integers(1, 30)] * 2, *[st.integers(0, 30)] * 4)


@given(counts)
def test_the_formula_equals_sacrebleu_on_any_counts(numbers):
    """Also with orders that have no match or no n-gram at all."""
    matched, (own, reference), extra = numbers[:4], numbers[4:6], numbers[6:]
    total = [m + e for m, e in zip(matched, extra, strict=True)]
    expected = BLEU.compute_bleu(list(matched), total, own, reference, smooth_method="exp").score
    found = bleu.bleu(np.array([own, reference, *matched, *total], dtype=float), 1)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_many_sums_at_once_equal_one_by_one():
    rows = reduce(system(30), bleu.metrics()).of(bleu.metrics()[0])
    sums = np.cumsum(rows, axis=0)
    assert bleu.bleu(sums, 1).tolist() == [float(bleu.bleu(s, 1)) for s in sums]


def test_moses_tokens():
    made = outputs("o", [Item("1", "Das Haus, das alte.", ("Das Haus , das alte .",))])
    assert score(made, bleu.metrics("moses-de"))[0].value == pytest.approx(100)
    assert score(made, bleu.metrics("none"))[0].value < 50
    prepared = bleu.Bleu("none", "de")._prepare('Er sagt: "ein Text-Test", ca. 3 %.\nJa!')
    assert prepared == "Er sagt : &quot; ein Text @-@ Test &quot; , ca. 3 % . Ja !"
    assert "|moses:de|hyphens:aggressive|" in str(bleu.metrics("moses-de")[0].signature)


OURS = (
    "Der Café-Liebhaber kaufte einen CO2-armen Kaffee-Vollautomaten.",
    "Die E-Mail-Adresse des Nord-Süd-Büros - kurz NSB - steht nicht im Netz.",
    'Zwei à-la-carte-Gerichte kosten 10-12 Euro, sagt "Koch-Profi" Max.',
)
THEIRS = (
    "Der Café-Freund kaufte einen CO2-armen Kaffee-Vollautomaten.",
    "Die E-Mail-Adresse des Nord-Süd-Büros - kurz NSB - steht nicht im Internet.",
    'Zwei à-la-carte-Gerichte kosten 10-12 Euro, sagt der "Koch-Profi" Max.',
)


def test_compounds_are_split_as_by_fairseq():
    """Golden: the Moses tokens of these texts without -a, through the Perl line of fairseq's
    compound_split_bleu.sh, counted by its libbleu.cpp (what fairseq-score prints): 54/56, 48/53,
    43/50, 38/47, lengths 56 and 57."""
    pairs = zip(OURS, THEIRS, strict=True)
    made = outputs("o", [Item(str(k), one, (two,)) for k, (one, two) in enumerate(pairs)])
    metrics = bleu.metrics("moses-de+compound")
    counts = reduce(made, metrics).of(metrics[0]).sum(0)
    assert counts.tolist() == [56, 57, 54, 48, 43, 38, 56, 53, 50, 47]
    assert score(made, metrics)[0].value == pytest.approx(86.71287067818963, abs=1e-9)
    assert "|moses:de|hyphens:compound-split|" in str(metrics[0].signature)


def test_a_hyphen_is_split_once():
    prepare = bleu.Bleu("none", "de", True)._prepare
    assert prepare(OURS[0]) == (
        "Der Café ##AT##-##AT## Liebhaber kaufte einen CO2 ##AT##-##AT## armen Kaffee "
        "##AT##-##AT## Vollautomaten ."
    )
    # The Perl line sees bytes, so a blank that is not ASCII parts nothing; and a letter ends one
    # match only.
    assert bleu.Bleu("none", compound=True)._prepare("a-b-c x - y 1\xa0-\xa02") == (
        "a ##AT##-##AT## b-c x - y 1\xa0 ##AT##-##AT## \xa02"
    )


@pytest.mark.parametrize(
    "option", ["moses-fr+compound", "moses+compound", "13a+compound", "+compound"]
)
def test_compounds_are_german(option):
    with pytest.raises(ValueError, match="split in German only"):
        bleu.metrics(option)


def test_bad_options_say_what_to_write():
    with pytest.raises(ValueError, match="sacrebleu has no tokenizer 'klingon': choose one of"):
        bleu.metrics("klingon")
    with pytest.raises(ValueError, match=r"only \+compound can be added"):
        bleu.metrics("none+split")


def test_a_text_that_would_take_too_long_is_refused():
    with pytest.raises(
        ValueError, match=r"item '1' has a text of 600,000 characters, which takes BLEU too long"
    ):
        bleu.Bleu().row(Item("1", "word", ("word " * 120_000,)))
