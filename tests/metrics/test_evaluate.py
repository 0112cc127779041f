"""Hypotheses and references in, scores out."""

import pytest

import dwindle
from dwindle.metrics import catalogue, score
from dwindle.runfiles.outputs import Item, outputs

HYPOTHESES = ["the cat sat on the mat .", "a dog"]
REFERENCES = ["a cat sat on a mat .", "the dog ran"]


def test_two_lines_give_what_the_command_gives():
    found = dwindle.evaluate(HYPOTHESES, REFERENCES, metrics="rouge,bleu")
    items = [
        Item(str(k), h, (r,)) for k, (h, r) in enumerate(zip(HYPOTHESES, REFERENCES, strict=True))
    ]
    known = score.score(outputs("o", items), catalogue.find(["rouge", "bleu"]))
    assert list(found.values()) == known
    assert list(found) == ["rouge1", "rouge2", "rougeL", "bleu"]
    assert found["rouge1"].signature["measure"] == "f1"


def test_several_references_sources_and_defaults():
    several = dwindle.evaluate(HYPOTHESES, [REFERENCES, REFERENCES], metrics=["rouge1"])
    assert 0 < several["rouge1"].value < 100
    assert set(dwindle.evaluate(["a a"])) == {
        *(f"repetition{n}" for n in (1, 2, 3, 4)),
        "length",
        "sentences",
    }
    assert dwindle.evaluate(["a b"], sources=["a c"], metrics="novelty1")["novelty1"].value == 50


def test_bad_input_is_one_sentence():
    with pytest.raises(ValueError, match="2 hypotheses and 1 references: give one for each"):
        dwindle.evaluate(HYPOTHESES, REFERENCES[:1])
    with pytest.raises(ValueError, match="a list of texts"):
        dwindle.evaluate("the cat", REFERENCES)
    with pytest.raises(ValueError, match="rouge1 needs references"):
        dwindle.evaluate(HYPOTHESES, metrics="rouge")
