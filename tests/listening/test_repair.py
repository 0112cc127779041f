"""Choosing among hypotheses so that less is left out."""

import pytest
import torch

import dwindle
from dwindle.listening.text import TextReader
from tests.listening import small

SOURCE = "ferry mayor storm music garden letter"
SHORT = "ferry mayor"


@pytest.fixture(scope="module")
def ears():
    """A model, its tokenizer and its listeners."""
    tokenizer = small.tokenizer()
    model = small.copier(len(tokenizer))
    return model, tokenizer, dwindle.listeners(model, tokenizer, small.TEXTS)


@pytest.mark.parametrize(("weight", "chosen"), [(0.2, SOURCE), (0.0, SHORT)])
def test_the_hypothesis_that_says_all_is_chosen(ears, monkeypatch, weight, chosen):
    model, tokenizer, listeners = ears
    monkeypatch.setattr(TextReader, "best", lambda self, sources, beams: [[(SHORT, -0.5), (SOURCE, -0.6)]])
    assert dwindle.repair(model, tokenizer, [SOURCE], listeners, weight=weight) == [chosen]


def test_hypotheses_are_those_of_the_librarys_search(ears):
    _, tokenizer, _ = ears
    model = small.copier(len(tokenizer))
    del model.generate  # the copying one
    reader = TextReader(model, tokenizer)
    model.generation_config.max_new_tokens = 4
    (found,) = reader.best(["ferry mayor"], 3)
    expected = model.generate(torch.tensor([tokenizer("ferry mayor")["input_ids"]]), num_beams=3)
    assert len(found) == 3
    assert found[0][0] == tokenizer.decode(expected[0], skip_special_tokens=True)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def test_bad_input_in_one_sentence(ears):
    with pytest.raises(ValueError, match="2 or more"):
        dwindle.repair(*ears[:2], [SOURCE], ears[2], beams=1)
