"""Codes of subword-nmt and models of SentencePiece, against the tools themselves."""

import io
import random

import pytest
from transformers import AutoTokenizer

from dwindle.models.build import build
from dwindle.models.pieces import pieces
from dwindle.models.settings import ModelSettings
from dwindle.models.subword import SENTENCE, SubwordCodec


def sentences(seed, count=400):
    """Words of syllables, so that there is something to merge; with punctuation and letters beyond
    ASCII."""
    rng = random.Random(seed)
    syllables = ["ka", "lo", "mün", "tre", "si", "ß", "na", "vo", "-", "é"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(150)]
    return [" ".join(rng.choices(words, k=rng.randint(1, 9))) + " ." for _ in range(count)]


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    learn = pytest.importorskip("subword_nmt.learn_bpe")
    out = io.StringIO()
    learn.learn_bpe(io.StringIO("\n".join(sentences(1))), out, 120)
    path = tmp_path_factory.mktemp("codes") / "bpecodes"
    path.write_text(out.getvalue(), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def model(request, tmp_path_factory):
    library = pytest.importorskip("sentencepiece")
    pytest.importorskip("google.protobuf")
    prefix = tmp_path_factory.mktemp("spm") / request.param
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences(1)),
        model_prefix=str(prefix),
        vocab_size=90,
        model_type=request.param,
        minloglevel=2,
        num_threads=1,
    )
    return prefix.with_suffix(".model")


def test_codes_cut_as_subword_nmt_does(codes):
    apply = pytest.importorskip("subword_nmt.apply_bpe")
    tool = apply.BPE(io.StringIO(codes.read_text(encoding="utf-8")))
    tokenizer = pieces(str(codes), sentences(1), "transformer")
    for text in sentences(2):
        marked = [
            t.removesuffix("</w>") if t.endswith("</w>") else f"{t}@@"
            for t in tokenizer.tokenize(text)
        ]
        assert marked == tool.process_line(text).split(" ")
        assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


def test_models_cut_as_sentencepiece_does(model):
    tool = pytest.importorskip("sentencepiece").SentencePieceProcessor(model_file=str(model))
    tokenizer = pieces(str(model), [], "transformer")
    for text in [*sentences(2), "  two  spaces ", "ﬁne ½"]:
        assert tokenizer(text, add_special_tokens=False)["input_ids"] == tool.encode(text)
    for text in sentences(2):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids) == tool.decode(ids) == text


@pytest.mark.filterwarnings("ignore:Version v4.12.0 introduces:FutureWarning")
@pytest.mark.parametrize("kind", ["transformer", "bart", "bertsum"])
def test_a_new_model_with_them_keeps_sentences_and_is_saved(codes, kind, tmp_path):
    settings = ModelSettings(
        kind, size="tiny", pieces=str(codes), source_length=40, target_length=40
    )
    model, codec = build(settings, lambda: ((text, text) for text in sentences(1)), seed=1)
    source = "\n".join(sentences(3, 2))
    row = codec.encode(source, source)
    batch = codec.collate([row])
    assert model(**batch).loss.isfinite()
    assert isinstance(codec, SubwordCodec)
    assert codec.separator == SENTENCE
    assert codec.decode(batch["labels"], batch) == [source]
    codec.save_pretrained(tmp_path)
    assert (
        AutoTokenizer.from_pretrained(tmp_path)(source)["input_ids"]
        == codec.tokenizer(source)["input_ids"]
    )


def test_a_model_of_sentencepiece_in_a_new_transformer(model):
    settings = ModelSettings(
        "transformer", size="tiny", pieces=str(model), source_length=80, target_length=80
    )
    built, codec = build(settings, lambda: [], seed=1)
    source = "\n".join(sentences(3, 2))
    batch = codec.collate([codec.encode(source, source)])
    assert codec.decode(batch["labels"], batch) == [source]
    assert built(**batch).loss.isfinite()


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("codes", b"a b\n", "does not begin with '#version: 0.2'"),
        ("codes", b"#version: 0.2\na b\nc\n", "line 3 is not a pair of pieces"),
        ("codes", b"\xff", "is not UTF-8"),
        ("x.model", b"nothing", "is not a SentencePiece model"),
    ],
)
def test_bad_files_are_sentences(tmp_path, name, content, complaint):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=complaint):
        pieces(str(tmp_path / name), [], "transformer")


def test_where_they_do_not_belong(tmp_path):
    with pytest.raises(ValueError, match=r"there is no .*nowhere: name the codes"):
        pieces(str(tmp_path / "nowhere"), [], "transformer")
    for settings in ({"kind": "pointer-generator"}, {"kind": "bart", "start": "x"}):
        with pytest.raises(ValueError, match="pieces are the vocabulary of a new"):
            ModelSettings(**settings, pieces="codes")
