"""Texts are cut for the eye without losing a character, and the worst items are kept as surely as
the best."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dwindle.analysis import arms, examples
from dwindle.analysis.highlight import SourceText
from dwindle.analysis.measure import measure
from tests import folders

TEXT = st.text(st.sampled_from("ab .\n<"), max_size=40)


@given(TEXT, TEXT, TEXT)
def test_parts_joined_are_the_text(text, source, base):
    found = examples.stretches(text, SourceText(source), base)
    assert "".join(part.text for part in found) == text
    assert all(
        (a.copied, a.other, a.repeated) != (b.copied, b.other, b.repeated)
        for a, b in pairwise(found)
    )


@given(TEXT, TEXT)
def test_nothing_differs_from_itself_and_every_foreign_word_does(text, base):
    assert not any(part.other for part in examples.stretches(text, SourceText(""), text))
    known = set(base.split())
    for part in examples.stretches(text, SourceText(""), base.replace("<", " ").replace(".", " ")):
        if not part.other:
            words = part.text.replace("<", " ").replace(".", " ").split()
            assert all(word in known or any(word in k for k in known) for word in words)


def test_an_example():
    parts = examples.stretches(
        "A red fox jumped high.", SourceText("a red fox jumped over"), "a red cat jumped low."
    )
    assert [(p.text, p.copied, p.other) for p in parts] == [
        ("A red ", 0, False),
        ("fox", 0, True),
        (" jumped", 0, False),
        (" ", None, False),
        ("high", None, True),
        (".", None, False),
    ]


def test_what_is_said_again_is_marked_where_it_is_said_again():
    text = "The red fox ran. A dog. The red fox, ran far."
    found = examples.stretches(text, SourceText(""), text)
    assert [s.text for s in found if s.repeated] == ["The red fox, ran"]
    assert not any(s.repeated for s in examples.stretches("a b a b", SourceText(""), ""))


def test_a_translation_is_sorted_by_its_own_metric(tmp_path):
    [test] = arms.read([folders.plain(tmp_path / f"{name}.jsonl", name) for name in "ab"]).tests
    found = examples.examples(measure(test, ["bleu", "length"]))
    assert found.metrics[0] == ("bleu", "BLEU", 1)
    assert found.metrics[1][0] == "rouge1"


def test_the_extremes_are_kept_when_not_all_can_be(tmp_path, monkeypatch):
    monkeypatch.setattr(examples, "MOST_ITEMS", 9)
    paths = [folders.plain(tmp_path / f"{name}.jsonl", name, count=60) for name in "abc"]
    [test] = arms.read(paths).tests
    found = examples.examples(measure(test))
    kept = [item["id"] for item in found.items]
    ids = [item.id for item in test.items]
    assert (len(kept), found.total) == (9, 60)
    assert kept == sorted(kept, key=ids.index)
    for system in ("b", "c"):
        gains = np.array(found.gains[system]["rouge1"])
        assert ids[gains.argmax()] in kept
        assert ids[gains.argmin()] in kept


def test_long_texts_are_kept_up_to_a_size(tmp_path, monkeypatch):
    monkeypatch.setattr(examples, "MOST_CHARACTERS", 1500)
    [test] = arms.read([folders.plain(tmp_path / "a.jsonl", count=30)]).tests
    assert 1 <= len(examples.examples(measure(test)).items) < 6


def test_scores_beside_the_texts_are_those_of_the_items(tmp_path):
    [test] = arms.read(
        [folders.plain(tmp_path / "a.jsonl", 1), folders.plain(tmp_path / "b.jsonl", 2)]
    ).tests
    measured = measure(test)
    found = examples.examples(measured)
    for place, item in enumerate(found.items):
        assert item["scores"]["rouge2"][1] == round(
            float(measured.per_item("b", "rouge2")[place]), 2
        )
