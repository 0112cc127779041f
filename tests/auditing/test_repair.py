"""Bringing back what was left out."""

import pytest
import torch

import dwindle
from dwindle.auditing import repair as module
from dwindle.auditing.text import TextReader
from tests.auditing import small

ONE = "Ferry mayor storm ship."
TWO = "Garden letter train river."
THREE = "School market child bridge."
SOURCE = f"{ONE} {TWO} {THREE}"


@pytest.fixture(scope="module")
def ears():
    """A model that copies, its tokenizer and its listeners."""
    tokenizer = small.tokenizer()
    model = small.copier(len(tokenizer))
    return model, tokenizer, dwindle.listeners(model, tokenizer, small.TEXTS)


@pytest.fixture
def ordered(monkeypatch):
    """The copier's own likelihood tells nothing of order: this one likes the order of the source
    best."""

    def likelihood(self, sources, outputs):
        places = [
            [output.find(one) for one in (ONE, TWO, THREE) if one in output] for output in outputs
        ]
        return [float(found == sorted(found)) for found in places]

    monkeypatch.setattr(TextReader, "likelihood", likelihood)


@pytest.mark.parametrize("output", [f"{ONE} {TWO}", f"{ONE} {THREE}", f"{TWO} {THREE}", ONE, THREE])
def test_a_sentence_that_was_left_out_is_put_in_its_place(ears, ordered, output):
    assert dwindle.repair(*ears[:2], [SOURCE], ears[2], [output]) == [SOURCE]


def test_a_healthy_output_stays_as_it_is_byte_for_byte(ears, monkeypatch):
    monkeypatch.setattr(TextReader, "write", None)  # nothing is written
    monkeypatch.setattr(TextReader, "best", None)
    healthy = f" {ONE}  {TWO}\t{THREE}\n"
    assert dwindle.repair(*ears[:2], [SOURCE], ears[2], [healthy]) == [healthy]


def test_without_outputs_the_models_own_are_mended(ears):
    assert [text.strip() for text in dwindle.repair(*ears[:2], [SOURCE, ONE], ears[2])] == [
        SOURCE,
        ONE,
    ]


def test_a_change_that_does_not_help_is_not_kept(ears, ordered, monkeypatch):
    monkeypatch.setattr(TextReader, "write", lambda self, sources: ["Ferry ferry."] * len(sources))
    monkeypatch.setattr(TextReader, "best", lambda self, sources, beams: [[("Ferry.", -0.1)]])
    output = f"{ONE} {TWO}"
    assert dwindle.repair(*ears[:2], [SOURCE], ears[2], [output]) == [output]


def test_where_no_whole_sentence_is_missing_a_hypothesis_is_chosen(ears, monkeypatch):
    source = "Ferry mayor storm ship garden letter train river."
    short, better = "Ferry mayor storm ship train river.", source
    monkeypatch.setattr(
        TextReader, "best", lambda self, sources, beams: [[(short, -0.5), (better, -0.6)]]
    )
    (found,) = dwindle.omissions(*ears[:2], [(source, short)], ears[2])
    assert found.alarm
    assert module.left_out(found) == []
    assert dwindle.repair(*ears[:2], [source], ears[2], [short]) == [better]


def test_likelihood_is_the_sum_over_tokens(ears):
    model, tokenizer, _ = ears
    reader = TextReader(model, tokenizer)
    outputs = ["ferry mayor", "ship"]
    for output, found in zip(outputs, reader.likelihood([ONE, TWO], outputs), strict=True):
        ids = tokenizer(text_target=output)["input_ids"]
        given = torch.tensor([tokenizer({"ship": TWO}.get(output, ONE))["input_ids"]])
        loss = model(input_ids=given, labels=torch.tensor([ids])).loss.detach()
        assert found == pytest.approx(-loss.item() * len(ids), rel=1e-4)


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
    with pytest.raises(ValueError, match="pass one for each"):
        dwindle.repair(*ears[:2], [SOURCE], ears[2], [])
