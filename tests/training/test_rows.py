"""Rows from the cache are those that the codec makes; they are made once."""

import pickle

import pytest

from dwindle.data.example import Example
from dwindle.training import rows
from tests.training.lesson import EXAMPLES, made

NASTY = Example("n", "naïve ☃ \x00 </s>", ("☃ \x00",))


@pytest.fixture(params=["transformer", "pointer-generator"])
def codec(request):
    return made(request.param, source_length=12)[1]


def test_rows_are_those_of_the_codec(codec):
    examples = [*EXAMPLES, NASTY]
    found = rows.encoded(codec, examples)
    slow = [codec.encode(e.source, e.target) for e in examples]
    assert found.cut == sum(row["cut"] for row in slow) > 0
    assert [found[i] for i in range(len(found))] == [
        {k: v for k, v in row.items() if k != "cut"} for row in slow
    ]
    assert found.lengths.tolist() == [len(e.source) for e in examples]


def test_they_are_made_once_for_a_corpus_and_a_codec(codec, monkeypatch):
    first = rows.encoded(codec, EXAMPLES)
    with monkeypatch.context() as patch:
        patch.setattr(type(codec), "encode", lambda *a: pytest.fail("encoded again"))
        assert rows.encoded(codec, list(EXAMPLES))[3] == first[3]
    codec.source_length = 5
    assert len(rows.encoded(codec, EXAMPLES)[3]["input_ids"]) == 5
    assert len(rows.encoded(codec, EXAMPLES[:4])) == 4


def test_empty_examples_are_left_out_and_named(codec):
    found = rows.encoded(
        codec, [Example("a", " ", ("x",)), EXAMPLES[0], Example("b", "x", ("\n",))]
    )
    assert (len(found), found.empty) == (1, ["a", "b"])
    none = rows.encoded(codec, [Example("a", " ", ("x",))])
    assert (len(none), none.empty) == (0, ["a"])


def test_they_go_to_other_processes(codec):
    found = rows.encoded(codec, EXAMPLES)
    assert pickle.loads(pickle.dumps(found))[1] == found[1]
