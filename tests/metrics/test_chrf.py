"""chrF against sacrebleu."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from dwindle.folder.outputs import Item, outputs
from dwindle.metrics import chrf
from dwindle.metrics.score import reduce, score
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
