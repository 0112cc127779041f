"""A second opinion by a translator of the other direction."""

import pytest
import torch

import dwindle
from dwindle.auditing import text as module
from dwindle.auditing.reverse import Reverse
from dwindle.auditing.text import TextReader
from tests.auditing import small

TEXTS = ["ferry mayor storm, music garden letter", "mayor", "the unknown-word 42 ship"]
OUTPUTS = ["ferry mayor garden letter", "", "ship ship"]


@pytest.fixture(scope="module")
def second(tokenizer):
    """Another model, so that what it is asked is seen to come from it."""
    other = small.copier(len(tokenizer), listens=False)
    with torch.no_grad():
        for block in other.decoder.block:  # what it reads now changes what it writes
            block.layer[1].EncDecAttention.o.weight.normal_(std=0.5)
    return Reverse(other, tokenizer)


@pytest.fixture(scope="module")
def chosen(model, tokenizer, second):
    return dwindle.listeners(model, tokenizer, small.TEXTS, reverse=second)


@torch.no_grad()
def by_hand(second: Reverse, source: str, output: str) -> list[float]:
    """The slow twin: one source, token by token."""
    reader, tokenizer = second.reader, second.reader.tokenizer
    ids = tokenizer(text_target=source)["input_ids"]
    given = torch.tensor([tokenizer(output)["input_ids"]])
    found = [0.0] * len(reader.read(source).parts)
    for n, ((start, end), token) in enumerate(zip(reader.written(source), ids, strict=True)):
        read = torch.tensor([[second.model.config.decoder_start_token_id, *ids[:n]]])
        logits = second.model(input_ids=given, decoder_input_ids=read).logits[0, -1]
        for k, part in enumerate(reader.read(source).parts):
            if start < part.end and part.start < end:
                found[k] -= float(logits.log_softmax(-1)[token])
    return found


@pytest.mark.parametrize("most", [2**26, 1])
def test_surprise_as_by_hand(second, monkeypatch, most):
    """In one batch, and row by row where a whole vocabulary for all of them would be too much."""
    monkeypatch.setattr(module, "MOST_LOGITS", most)
    sources = [second.reader.read(text) for text in TEXTS]
    for text, output, found in zip(
        TEXTS, OUTPUTS, second.surprise(sources, TEXTS, OUTPUTS), strict=True
    ):
        assert found[:, 0].tolist() == pytest.approx(by_hand(second, text, output), abs=1e-4)
        assert found[:, 1].tolist() == pytest.approx(by_hand(second, text, ""), abs=1e-4)


def test_the_second_opinion_is_part_of_the_evidence(model, tokenizer, second, chosen):
    assert len(chosen.weights) == 4
    assert chosen.reverse == second.probe()
    assert chosen.auroc["words, with reverse"] >= chosen.auroc["words"] - 0.1
    pairs = list(zip(TEXTS, OUTPUTS, strict=True))
    found = list(dwindle.omissions(model, tokenizer, pairs, chosen, reverse=second))
    reader = TextReader(model, tokenizer)
    source = reader.read(TEXTS[0])
    inputs, read, rows = reader.batch([source], OUTPUTS[:1])
    peaks = dwindle.auditing.heads.peaks(model, chosen.heads, inputs, read, rows)[0]
    surprise = torch.tensor(
        [by_hand(second, TEXTS[0], OUTPUTS[0]), by_hand(second, TEXTS[0], "")]
    ).T
    assert found[0].scores == pytest.approx(
        chosen.scores(source, peaks, surprise).tolist(), abs=1e-3
    )
    assert found[1].alarm  # an empty output


def test_a_source_that_the_reverse_model_cannot_write_is_unread_from_there(
    model, tokenizer, second, chosen
):
    long = " ".join(small.WORDS)
    short = Reverse(second.model, tokenizer)
    short.reader.longest = 6
    (found,) = dwindle.omissions(model, tokenizer, [(long, long)], chosen, reverse=short)
    assert 0 < found.read < found.length
    assert all(part.end <= found.read for part in found.parts)


def test_listeners_and_second_opinion_belong_together(model, tokenizer, second, chosen, tmp_path):
    plain = dwindle.listeners(model, tokenizer, small.TEXTS)
    with pytest.raises(ValueError, match="pass the reverse model"):
        dwindle.omissions(model, tokenizer, [("a", "b")], chosen)
    with pytest.raises(ValueError, match="chosen without this reverse model"):
        dwindle.omissions(model, tokenizer, [("a", "b")], plain, reverse=second)
    source = TextReader(model, tokenizer).read("mayor")
    with pytest.raises(ValueError, match="rows alone have none"):
        chosen.finding(source, torch.zeros(len(chosen.heads), 1, len(source.owner)))
    assert dwindle.Listeners.load(chosen.save(tmp_path)) == chosen
