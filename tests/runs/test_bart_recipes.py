"""The recipes of BART train on what fairseq trains on: whole summaries, each a single line."""

import pytest

from dwindle.data.example import Example
from dwindle.models.build import build
from dwindle.models.subword import NEWLINE
from dwindle.runs import recipe, shelf
from dwindle.training.rows import encoded
from tests.models.library_kit import built

NAMES = [name for name in shelf.shipped() if name.startswith("cnndm/bart")]
SUMMARY = "\n".join(f"the cat number {n} sat on the mat ." for n in range(40))
ARTICLE = "\n".join(f"cat {n} sat at {n} o'clock ." for n in range(400))


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """As bart-large comes: byte-level BPE that has a newline, and 1,024 positions."""
    folder = tmp_path_factory.mktemp("bart")
    model, codec = built("bart", source_length=1024)
    codec.tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("name", NAMES)
def test_targets_are_whole_lines_and_sources_are_cut(name, start):
    settings = recipe.read(name, [f"model.start={start}", "model.layers=1"]).model
    _, codec = build(settings, lambda: iter(()), 1)
    (row,) = encoded(codec, [Example("1", ARTICLE, (SUMMARY,))])
    ids, labels = list(row["input_ids"]), list(row["labels"])
    newline, end = codec.tokenizer.convert_tokens_to_ids(NEWLINE), codec.tokenizer.eos_token_id
    assert newline != codec.tokenizer.unk_token_id  # so the vocabulary could say it
    assert newline not in {*ids, *labels}
    assert 280 < len(labels) < 1024
    assert (labels[-1], labels.count(end)) == (end, 1)
    text = codec.tokenizer.decode(labels, skip_special_tokens=True)
    assert text.strip() == SUMMARY.replace("\n", " ")
    assert (len(ids), ids[-1]) == (1024, end)
    assert codec.tokenizer.decode(ids, skip_special_tokens=True).startswith(" cat 0 sat at 0")
