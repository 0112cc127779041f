"""A closer look at suspicious words: is the output likelier without them?"""

import pytest
import torch

import dwindle
from dwindle.auditing.contrast import SUSPECTS, contrasted
from dwindle.auditing.listeners import Listeners
from dwindle.auditing.source import Part
from dwindle.auditing.text import TextReader
from tests.auditing import small

SOURCE, OUTPUT = "ferry mayor storm, market garden letter train", "ferry mayor garden letter"


@pytest.fixture(scope="module")
def writer(tokenizer):
    """A copier whose words depend on what it reads."""
    model = small.copier(len(tokenizer))
    with torch.no_grad():
        for block in model.decoder.block:
            block.layer[1].EncDecAttention.o.weight.normal_(std=0.5)
    return model


@pytest.fixture(scope="module")
def reader(writer, tokenizer):
    return TextReader(writer, tokenizer)


@pytest.fixture(scope="module")
def chosen(writer, tokenizer):
    return dwindle.listeners(writer, tokenizer, small.TEXTS, contrast=True)


@torch.no_grad()
def likelihood(reader: TextReader, source: str, output: str) -> float:
    """The slow twin: token by token."""
    ids = reader.tokenizer(text_target=output)["input_ids"]
    given = torch.tensor([reader.tokenizer(source)["input_ids"]])
    total = 0.0
    for n, token in enumerate(ids):
        read = torch.tensor([[reader.model.config.decoder_start_token_id, *ids[:n]]])
        total += float(
            reader.model(input_ids=given, decoder_input_ids=read)
            .logits[0, -1]
            .log_softmax(-1)[token]
        )
    return total


def test_the_ratio_of_likelihoods_is_added_to_the_highest_scores(reader):
    parts = reader.read(SOURCE).parts
    scores = torch.tensor([0.5, -1.0, 3.0, 2.0, -2.0, 1.0, 0.0])
    (found,) = contrasted(reader, [(SOURCE, OUTPUT)], [parts], [scores])
    assert len(parts) == 7 > SUSPECTS
    assert found[[1, 4]].tolist() == scores[[1, 4]].tolist()  # not among the five highest
    whole = likelihood(reader, SOURCE, OUTPUT)
    shorter = {
        0: "mayor storm, market garden letter train",
        2: "ferry mayor , market garden letter train",
        3: "ferry mayor storm, garden letter train",
        5: "ferry mayor storm, market garden train",
        6: "ferry mayor storm, market garden letter",
    }
    for n, text in shorter.items():
        expected = float(scores[n]) + likelihood(reader, text, OUTPUT) - whole
        assert float(found[n]) == pytest.approx(expected, abs=1e-4)
        assert abs(expected - float(scores[n])) > 1e-3


def test_pairs_do_not_disturb_each_other(reader):
    pairs = [
        (SOURCE, OUTPUT),
        ("mayor bridge", "mayor"),
        ("storm ship river", ""),
        ("ferry", "mayor"),
    ]
    parts = [reader.read(source).parts for source, _ in pairs]
    scores = [torch.arange(len(some), dtype=torch.float32) for some in parts]
    together = contrasted(reader, pairs, parts, scores)
    for n, pair in enumerate(pairs):
        (alone,) = contrasted(reader, [pair], [parts[n]], [scores[n]])
        assert together[n].tolist() == pytest.approx(alone.tolist(), abs=1e-4)
    # an empty output left out everything, as it stood
    assert together[2].tolist() == scores[2].tolist()
    assert together[3].tolist() == scores[3].tolist()  # without its only word there is no source


def test_scripts_without_spaces_get_none():
    class Asked:
        def likelihood(self, sources, outputs):
            self.sources = sources
            return [0.0] * len(sources)

    asked = Asked()
    parts = [Part(0, 2), Part(2, 4)]
    contrasted(asked, [("大桥关闭。", "closed")], [parts], [torch.tensor([1.0, 0.0])])
    assert set(asked.sources) == {"大桥关闭。", "关闭。"}


def test_an_audit_takes_the_closer_look(writer, tokenizer, reader, chosen, tmp_path):
    assert Listeners.load(chosen.save(tmp_path / "listeners.json")).contrast
    plain = dwindle.listeners(writer, tokenizer, small.TEXTS)
    assert (plain.heads, plain.weights, plain.contrast) == (chosen.heads, chosen.weights, False)
    assert plain.calibration["items"] != chosen.calibration["items"]
    (before,), (after,) = (
        list(dwindle.omissions(writer, tokenizer, [(SOURCE, OUTPUT)], one))
        for one in (plain, chosen)
    )
    (expected,) = contrasted(
        reader, [(SOURCE, OUTPUT)], [before.parts], [torch.tensor(before.scores)]
    )
    assert list(after.scores) == pytest.approx(expected.tolist(), abs=1e-4)
    with pytest.raises(ValueError, match="look closer with the model itself"):
        chosen.finding(reader.read(SOURCE), torch.ones(len(chosen.heads), 2, 20))
