"""The codec of words: numbers for words it knows, for words it copies, and the way back."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwindle.models.pointer_generator.words import WordCodec
from dwindle.models.vocabulary import SPECIAL, Vocabulary

PAIRS = [("The cat sat on the mat .", "the cat sat .\nthe mat ."), ("a dog sat .", "dog .")]


def codec(**settings):
    return WordCodec.fitted(PAIRS, **{"size": 9, **settings})


def test_the_most_frequent_words_and_the_special_ones_are_known():
    # "." 5 times, "the" 4, "sat" 3, then "cat", "dog" and "mat" twice, as far as there is room
    assert codec().vocabulary.words == [*SPECIAL, "<sentence>", ".", "the", "sat", "cat"]
    assert len(codec(size=None).vocabulary) == 5 + 8


def test_unknown_words_of_the_source_get_numbers_behind_the_vocabulary():
    row = codec().encode("The dog sat on the dog mat", "dog on\n\nzork the")
    assert row["input_ids"] == [6, 1, 7, 1, 6, 1, 1]
    assert row["extended_ids"] == [6, 9, 7, 10, 6, 9, 11]
    assert row["oov"] == ["dog", "on", "mat"]
    assert row["labels"] == [9, 10, 4, 1, 6, 3]  # zork is nowhere; one break for an empty line


def test_a_batch_is_padded_and_takes_its_words_along():
    words = codec()
    batch = words.collate(
        [words.encode(*pair) for pair in [("a dog sat", "dog sat ."), ("the", "sat")]]
    )
    assert {name: x.shape for name, x in batch.items()} == {
        **dict.fromkeys(("input_ids", "attention_mask", "extended_ids"), (2, 3)),
        "labels": (2, 4),
        "oov": (2, 2, 3),
    }
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch["labels"].tolist() == [[10, 7, 5, 3], [7, 3, -100, -100]]
    assert "labels" not in words.collate([words.encode("the")])
    assert words.collate([words.encode("the")])["oov"].shape == (1, 0, 0)


def test_generated_ids_become_text():
    words = codec()
    batch = words.collate([words.encode("a dog sat"), words.encode("naïve ☃")])
    ids = torch.tensor(
        [
            [2, 10, 7, 4, 9, 3, 6],
            [2, 4, 7, 4, 4, 1, 0],
            [2, 9, 10, 3, 0, 0, 0],
            [2, 10, 3, 0, 0, 0, 0],
        ]
    )
    # two sequences for each source
    assert words.decode(ids, batch) == ["dog sat\na", "sat\n<unk>", "naïve ☃", "☃"]


def test_long_sources_are_cut_and_counted():
    words = codec(source_length=3, target_length=2)
    row = words.encode("the cat sat")
    assert (row["input_ids"], row["cut"]) == ([6, 8, 7], False)
    row = words.encode("the cat sat on mat", "mat the cat")
    assert (row["input_ids"], row["oov"], row["cut"]) == ([6, 8, 7], [], True)
    assert row["labels"] == [1, 6]  # cut, so without its end
    assert words.source_tokens("The cat sat on") == ["the", "cat", "sat"]


def test_special_words_in_a_text_are_words():
    words = WordCodec.fitted([("<s> </s> <sentence> <sentence> x", "x")], size=None)
    assert words.vocabulary.words == [*SPECIAL, "<sentence>", "x"]
    row = words.encode("x </s> <sentence>", "</s> x")
    assert row["labels"] == [6, 5, 3]
    batch = words.collate([row])
    assert words.decode(torch.tensor([[2, 6, 5, 7, 3]]), batch) == ["</s> x <sentence>"]


@given(
    st.lists(
        st.lists(st.sampled_from(["the", "cat", "sat", "ö", "zork", "☃☃", "x" * 40]), min_size=1),
        min_size=1,
    )
)
def test_a_target_copied_from_its_source_comes_back(sentences):
    text = "\n".join(" ".join(words) for words in sentences)
    words = codec(source_length=10_000, target_length=10_000)
    batch = words.collate([words.encode(text, text), words.encode("a b c d e f g h", "a")])
    assert words.decode(batch["labels"].where(batch["labels"] >= 0, 0), batch) == [text, "a"]


def test_a_vocabulary_without_a_word_between_sentences():
    """As See's: a target is one row of words, and a full stop ends a line of the output."""
    words = WordCodec(Vocabulary([".", "cat", "sat"]))
    row = words.encode("the cat sat .", "cat .\nthe cat sat")
    assert row["labels"] == [5, 4, 7, 5, 6, 3]
    assert words.sentence_break is None  # its first word is none
    batch = words.collate([row])
    assert words.decode(torch.tensor([[2, 5, 4, 7, 5, 6, 4, 3]]), batch) == ["cat .\nthe cat sat ."]


def test_saved_and_loaded_it_is_the_same(tmp_path):
    words = codec(source_length=7, target_length=8)
    words.save_pretrained(tmp_path)
    again = WordCodec.from_pretrained(tmp_path)
    assert again.vocabulary.words == words.vocabulary.words
    assert (again.source_length, again.target_length) == (7, 8)
    assert json.loads((tmp_path / "words.json").read_text()) == {
        "source_length": 7,
        "target_length": 8,
    }


def test_bad_input_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="no words"):
        codec().encode(" \n ")
    with pytest.raises(ValueError, match=r"no words\.json"):
        WordCodec.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match="source_length is 0"):
        codec(source_length=0)
