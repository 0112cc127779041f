"""BLEU against sacrebleu, and the Moses and compound text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from dwindle.folder.outputs import Item, outputs
from dwindle.metrics import bleu
from dwindle.metrics.score import reduce, score
from tests.metrics.texts import system


@pytest.mark.parametrize("option", ["", "none", "char", "intl"])
@pytest.mark.parametrize("references", [1, 3])
def test_equals_sacrebleu(option, references):
    made = system(40, references=references)
    flat = [item.hypothesis.replace("\n", " ") for item in made.items]
    streams = [[item.references[k].replace("\n", " ") for item in made.items] for k in range(references)]
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


def test_moses_tokens_and_compounds():
    prepare = bleu.Bleu("none", "de", True)._prepare
    assert prepare('Er sagt: "ein Text-Test", ca. 3 %.\nJa!') == (
        "Er sagt : &quot; ein Text @-@ Test &quot; , ca. 3 % . Ja !".replace(
            "Text @-@ Test", "Text @ ##AT##-##AT## @ Test"
        )
    )
    assert bleu.Bleu("none", compound=True)._prepare("rich-text a-b-c x - y") == (
        "rich ##AT##-##AT## text a ##AT##-##AT## b-c x - y"
    )
    made = outputs("o", [Item("1", "Das Haus, das alte.", ("Das Haus , das alte .",))])
    assert score(made, bleu.metrics("moses-de"))[0].value == pytest.approx(100)
    assert score(made, bleu.metrics("none"))[0].value < 50
    assert "|moses:de-a|compound:split|" in bleu.metrics("moses-de+compound")[0].signature


def test_bad_options_say_what_to_write():
    with pytest.raises(ValueError, match="sacrebleu has no tokenizer 'klingon': choose one of"):
        bleu.metrics("klingon")
    with pytest.raises(ValueError, match=r"only \+compound can be added"):
        bleu.metrics("none+split")
