"""chrF against sacrebleu."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from dwindle.metrics import chrf
from dwindle.metrics.score import reduce, score
from dwindle.runfiles.outputs import Item, outputs
from tests.metrics.texts import system


@pytest.mark.parametrize("references", [1, 3])
def test_equals_sacrebleu(references):
    made = system(40, references=references)
    streams = [[item.references[k] for item in made.items] for k in range(references)]
    expected = CHRF().corpus_score([item.hypothesis for item in made.items], streams).score
    assert score(made, chrf.metrics())[0].value == pytest.approx(expected, rel=1e-12)


texts = st.text("ab é中", max_size=9)


@given(texts, st.lists(texts.filter(str.strip), min_size=1, max_size=3))
def test_one_item_equals_sacrebleu_on_any_texts(hypothesis, references):
    """Also empty outputs, and texts shorter than an order."""
    made = outputs("o", [Item("1", hypothesis, tuple(references))])
    expected = CHRF().sentence_score(hypothesis, references).score
    assert score(made, chrf.metrics())[0].value == pytest.approx(expected, abs=1e-9)


def test_many_sums_at_once_equal_one_by_one():
    rows = reduce(system(30), chrf.metrics()).of(chrf.metrics()[0])
    sums = np.cumsum(rows, axis=0)
    assert chrf.chrf(sums, 1).tolist() == [float(chrf.chrf(s, 1)) for s in sums]


def test_an_option_is_refused():
    with pytest.raises(ValueError, match="chrf has no option '\\+\\+': write chrf"):
        chrf.metrics("++")


@settings(max_examples=50)
@given(*[st.text(st.sampled_from("abc é漢\n\ud83d\U0001f600"), max_size=30)] * 2)
def test_long_texts_are_counted_as_short_ones(one, two):
    """The quick way is for long texts; it gives the same counts for any."""
    slow = chrf._matched(chrf._ngrams(one), chrf._ngrams(two))
    assert chrf._matched_long(one, two) == slow


def test_a_text_of_a_megabyte_is_scored():
    text = "one two three four five six seven eight nine ten " * 20_000
    assert chrf.chrf(np.array(chrf.Chrf().row(Item("1", text, (text,)))), 1) == pytest.approx(100)
