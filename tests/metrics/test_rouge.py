"""ROUGE against golden values of the original script, a slow twin, and its laws."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dwindle.data.script import is_latin, with_sentences, words
from dwindle.metrics import lcs, rouge
from dwindle.metrics.rouge import rouge_tokens
from dwindle.metrics.score import reduce, score
from dwindle.metrics.stem import irregular, porter
from dwindle.runfiles.outputs import Item, outputs
from tests.metrics.texts import system

GOLDEN = json.loads((Path(__file__).parent / "golden" / "rouge.json").read_text(encoding="utf-8"))


def golden_system(first_reference_only: bool = False):
    end = 1 if first_reference_only else None
    items = [Item(str(i), h, tuple(r[:end]), line=i) for i, (h, r) in enumerate(GOLDEN["pairs"], 1)]
    return outputs("golden", items)


@pytest.mark.parametrize(
    ("reduction", "key"),
    [
        (rouge.Rouge(), "script"),
        (rouge.Rouge("porter"), "script_without_irregular_forms"),
        (rouge.Rouge("rouge-score"), "rouge_score"),
    ],
)
def test_every_item_equals_the_original_tool(reduction, key):
    """Recall, precision and F1 of all three measures, to the last printed digit (origin:
    rouge.json)."""
    rows = np.array([reduction.row(item) for item in golden_system().items]).reshape(-1, 3, 3) / 100
    for k, name in enumerate(kind.name for kind in rouge.KINDS):
        np.testing.assert_allclose(rows[:, k], GOLDEN[key][name], atol=1e-9, rtol=0)


def test_limited_length_recall_equals_the_script_on_cut_texts():
    statistics = reduce(golden_system(first_reference_only=True), rouge.metrics("recall"))
    for metric, name in zip(rouge.metrics("recall"), ("rouge1", "rouge2", "rougeL"), strict=True):
        expected = [recall for recall, _, _ in GOLDEN["script_limited_first_reference"][name]]
        np.testing.assert_allclose(statistics.values(metric) / 100, expected, atol=1e-9)


def test_the_average_the_script_prints():
    for found in score(golden_system(), rouge.metrics("script")):
        printed = GOLDEN["script_printed"][found.metric.removesuffix(":script")]
        assert round(found.value / 100, 5) == printed


def test_stems_equal_the_script():
    assert {word: porter(word) for word in GOLDEN["stems"]} == GOLDEN["stems"]


def test_irregular_forms_are_used_by_the_script_style_only():
    assert irregular()["said"] == "say"
    for style, same in (("1.5.5", True), ("porter", False), ("rouge-score", False)):
        said, say = rouge.text("said", style), rouge.text("say", style)
        assert (said.tokens == say.tokens) is same


def slow_hits(reference, sentences):
    """The script's table and walk, cell by cell."""
    found = set()
    for sentence in sentences:
        m, n = len(reference), len(sentence)
        c = [[0] * (n + 1) for _ in range(m + 1)]
        for i in range(1, m + 1):
            for j in range(1, n + 1):
                same = reference[i - 1] == sentence[j - 1]
                c[i][j] = c[i - 1][j - 1] + 1 if same else max(c[i - 1][j], c[i][j - 1])
        i, j = m, n
        while i and j:
            if reference[i - 1] == sentence[j - 1]:
                i, j = i - 1, j - 1
                found.add(i)
            elif c[i - 1][j] >= c[i][j - 1]:
                i -= 1
            else:
                j -= 1
    return found


tokens = st.lists(st.integers(0, 4), max_size=14)


@given(tokens, st.lists(tokens, max_size=4))
def test_union_lcs_equals_its_slow_twin(reference, sentences):
    assert lcs.hits(reference, sentences) == slow_hits(reference, sentences)


def test_union_lcs_of_long_texts_equals_its_slow_twin():
    rng = random.Random(1)
    for _ in range(20):
        reference = [rng.randrange(12) for _ in range(90)]
        sentences = [[rng.randrange(12) for _ in range(rng.randrange(120))] for _ in range(3)]
        assert lcs.hits(reference, sentences) == slow_hits(reference, sentences)


@given(st.text(), st.text())
def test_scores_are_in_range_and_symmetric_where_they_should_be(one, two):
    """Of texts in one script: else the reference's decides what a word is."""
    for style in ("1.5.5", "porter", "rouge-score"):
        row = rouge.Rouge(style).row(Item("1", one, (two,)))
        assert all(0 <= x <= 100 for x in row)
        if is_latin(one) != is_latin(two):
            continue
        back = rouge.Rouge(style).row(Item("1", two, (one,)))
        assert row[2] == pytest.approx(back[2])  # F1 of unigrams
        assert row[5] == pytest.approx(back[5])


@given(st.text())
def test_a_text_with_words_scores_100_against_itself(text):
    row = rouge.Rouge().row(Item("1", text, (text,)))
    n = len(rouge_tokens(text) if is_latin(text) else words(text))
    assert row[2] == row[8] == (100 if n else 0)
    assert row[5] == (100 if n > 1 else 0)


@given(st.text(st.characters(), max_size=40))
def test_tokenizers_take_any_string(text):
    for token in rouge_tokens(text):
        assert token.isalnum()
        assert token == token.lower()
        assert isinstance(porter(token.decode()), str)
    assert all(word and not word.isspace() for word in words(text))


@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=14))
def test_a_stem_is_never_longer_than_its_word_and_never_empty(word):
    assert 0 < len(porter(word)) <= len(word)


def test_the_cut_keeps_lines_and_words():
    assert rouge._first_words("a b\nc d\ne", "x y z") == "a b\nc"
    assert rouge._first_words("a b", "x y z") == "a b"
    assert rouge._first_words("a b\nc", "x y") == "a b"


def test_values_are_means_of_items_and_signatures_tell_the_variants_apart():
    made = system(20)
    signatures = set()
    for option in ("", "script", "recall", "porter", "rouge-score"):
        metrics = rouge.metrics(option)
        statistics = reduce(made, metrics)
        for metric in metrics:
            assert statistics.value(metric) == pytest.approx(statistics.values(metric).mean())
            signatures.add(metric.signature)
    assert len(signatures) == 15
    with pytest.raises(ValueError, match="no option 'f2'"):
        rouge.metrics("f2")


def presumm_twin(hypothesis, reference):
    """PreSumm's predictor with recall_eval, on its own <q> strings: a candidate that reaches ten
    words over the gold ends the loop, and the one before it stands."""
    whole, gold, kept = hypothesis.replace("\n", "<q>"), reference.replace("\n", "<q>"), ""
    for sentence in whole.split("<q>"):
        candidate = kept + "<q>" + sentence.strip()
        if len(candidate.split()) >= len(gold.split()) + 10:
            return kept.replace("<q>", "\n").strip()
        kept = candidate
    return whole.replace("<q>", "\n")


@settings(max_examples=200)
@given(
    st.lists(st.integers(1, 14), min_size=1, max_size=6),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_presumm_cuts_at_sentences(ours, theirs):
    hypothesis, reference = (
        "\n".join(" ".join(f"w{k}" for k in range(n)) for n in lines) for lines in (ours, theirs)
    )
    assert rouge._first_sentences(hypothesis, reference) == presumm_twin(hypothesis, reference)


def test_limited_recall_by_sentences():
    hypothesis = "a b c d\ne f g h i j k l m n o p q r s t\nu v"
    item = Item("1", hypothesis, ("a b c x",))
    values = {
        option: score(outputs("o", [item]), rouge.metrics(option))[0].value
        for option in ("presumm", "recall", "")
    }
    assert values["presumm"] == values["recall"] == 75
    assert "cut:reference-sentences" in str(rouge.metrics("presumm")[0].signature)


def test_a_text_of_one_line_is_split_into_sentences_if_asked():
    lines = 'Mr. Smith of the U.S. went to St. Paul.\n"Is it far?"\nNo. 5 is near!\n3 others left.'
    assert with_sentences(lines.replace("\n", " ")) == lines
    tokenised = "the bridge closed .\n`` is it far ? ''\nno , 3.5 miles !\ni see ."
    assert with_sentences(tokenised.replace("\n", " ")) == tokenised
    assert with_sentences("one. Two.\nThree. Four.") == "one. Two.\nThree. Four."
    item = Item("1", "By ferry. Children went.", ("Children went by ferry.",))
    whole, split = (
        score(outputs("o", [item]), rouge.metrics(option))[2].value for option in ("", "split")
    )
    assert whole < split == 100
    assert "|sentences:split|" in str(rouge.metrics("script+split")[0].signature)
    with pytest.raises(ValueError, match="no option 'split"):
        rouge.metrics("split+recall")


def test_texts_that_would_take_minutes_are_refused():
    text = "a b c d e " * 100_000
    with pytest.raises(
        ValueError, match="500,000 words against one of 500,000 would take ROUGE-L minutes"
    ):
        rouge.Rouge().row(Item("1", text, (text,)))
