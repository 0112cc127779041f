"""The codec of library models: sentences survive, cutting is counted, the tensors are as the models
want them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwindle.models.subword import SubwordCodec, trained
from tests.models.library_kit import PAIRS, bert, built

SOURCE, TARGET = PAIRS[7]


@pytest.fixture(scope="module")
def codecs() -> dict[str, SubwordCodec]:
    return {kind: built(kind)[1] for kind in ("transformer", "bart", "bertsum")}


KINDS = ("transformer", "bart", "bertsum")
words = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=6)
texts = st.lists(st.lists(words, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=3).map(
    "\n".join
)


@given(texts)
def test_any_text_comes_back_with_its_sentences(codecs, text):
    """Bytes know every letter; and no word of a text is special, not even </s>."""
    for codec in codecs.values():
        codec.target_length = 10_000
        batch = codec.collate(
            [codec.encode(SOURCE, text), codec.encode(SOURCE, f"{text} </s> <pad>")]
        )
        sequences = batch["labels"].masked_fill(
            batch["labels"] == -100, codec.tokenizer.pad_token_id
        )
        assert codec.decode(sequences, batch) == [text, f"{text} </s> <pad>"]


def test_empty_lines_are_no_sentences(codecs):
    codec = codecs["transformer"]
    assert codec.encode(" \n\na b\n\nc\n") == codec.encode("a b\nc")


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_in_their_places(kind, codecs):
    codec = codecs[kind]
    codec.target_length = 20
    row = codec.encode(SOURCE, TARGET)
    source, target = (
        codec.tokenizer.convert_ids_to_tokens(row[name]) for name in ("input_ids", "labels")
    )
    assert source[0] == {"transformer": "Ġthe", "bart": "<s>", "bertsum": "<cls>"}[kind]
    assert source[-1] == ("<sep>" if kind == "bertsum" else "</s>")
    assert target[0] == ("<s>" if kind == "bart" else "Ġcat")
    assert target[-1] == "</s>"
    assert target.count("Ċ") == 1
    assert source.count("Ċ") == (0 if kind == "bertsum" else 1)


def test_bertsum_marks_every_sentence(codecs):
    codec = codecs["bertsum"]
    row = codec.encode("a b\nc\nd")
    tokens = codec.tokenizer.convert_ids_to_tokens(row["input_ids"])
    starts = [i for i, token in enumerate(tokens) if token == "<cls>"]
    assert len(starts) == 3
    assert row["token_type_ids"] == [0] * starts[1] + [1] * (starts[2] - starts[1]) + [0] * (
        len(tokens) - starts[2]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_too_long_is_cut_and_counted(kind, codecs):
    codec = codecs[kind]
    whole = codec.encode(SOURCE, TARGET)
    codec.source_length, codec.target_length = 9, 5
    cut = codec.encode(SOURCE, TARGET)
    assert cut["input_ids"] == [*whole["input_ids"][:8], whole["input_ids"][-1]]  # its end stays
    end = whole["labels"][-1] if kind == "bertsum" else whole["labels"][4]
    # without an end: there is none to learn; but as PreSumm, with
    assert cut["labels"] == [*whole["labels"][:4], end]
    assert len(codec.source_tokens(SOURCE)) == 9
    assert (whole["cut"], cut["cut"]) == (False, True)
    assert len(codec.encode("a")["input_ids"]) < 9
    codec.source_length, codec.target_length = 40, 20


def test_batches_are_padded(codecs):
    codec = codecs["bertsum"]
    batch = codec.collate([codec.encode(SOURCE, TARGET), codec.encode("a", "b")])
    short = len(codec.encode("a")["input_ids"])
    assert batch["attention_mask"].sum(1).tolist() == [
        len(codec.encode(SOURCE)["input_ids"]),
        short,
    ]
    assert (batch["input_ids"][1, short:] == codec.tokenizer.pad_token_id).all()
    assert (batch["labels"][1, len(codec.encode("a", "b")["labels"]) :] == -100).all()
    assert batch["token_type_ids"].shape == batch["input_ids"].shape
    assert "labels" not in codec.collate([codec.encode(SOURCE)])


def test_an_empty_source_is_still_a_source(codecs):
    for codec in codecs.values():
        assert codec.collate([codec.encode("")])["input_ids"].shape[1] >= 1


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded(kind, codecs, tmp_path):
    codec = codecs[kind]
    codec.save_pretrained(tmp_path)
    again = SubwordCodec.from_pretrained(tmp_path)
    assert again.encode(SOURCE, TARGET) == codec.encode(SOURCE, TARGET)
    names = ("source_length", "target_length", "separator", "sentences")
    assert [getattr(again, n) for n in names] == [getattr(codec, n) for n in names]


def test_words_are_joined_pieces_and_special_tokens(codecs, tmp_path):
    """What PreSumm's trigrams are of, in its own vocabulary and in one of bytes."""
    codec = codecs["bertsum"]
    ids = codec.encode("a", "cats sat .\ncat 3 sat .")["labels"]
    assert codec.words(ids) == ["cats", "sat", ".", "Ċ", "cat", "3", "sat", ".", "</s>"]
    _, codec = built("bertsum", start=str(bert(tmp_path)), source_length=16)
    ids = codec.encode("a", "cats sat .\ncat 3 sat .")["labels"]
    assert codec.words(ids) == [
        "cats",
        "sat",
        ".",
        "[unused2]",
        "cat",
        "3",
        "sat",
        ".",
        "[unused1]",
    ]
    assert codec.tokenizer.convert_ids_to_tokens(codec.sentence_break) == "[unused2]"


def test_words_of_a_codec_that_writes_one_line(codecs):
    whole = codecs["bart"]
    codec = SubwordCodec(whole.tokenizer, whole.source_length, 20, separator=None)
    assert codec.words(codec.encode("a", "cats sat .\ncat 3")["labels"]) == [
        "<s>",
        "cats",
        "sat",
        ".",
        "cat",
        "3",
        "</s>",
    ]


def test_a_vocabulary_has_room_for_all_bytes():
    with pytest.raises(ValueError, match="bytes and special tokens alone are 261"):
        trained(["a"], 200, "bart")
