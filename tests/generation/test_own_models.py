"""The pointer-generator and the captioner go through the same search, penalties and bulk
decoding."""

import json

import numpy as np
import pytest
import torch

from dwindle.data.example import Example
from dwindle.data.regions import Npy
from dwindle.generation.decode import decode
from dwindle.generation.generate import generate
from dwindle.generation.settings import DecodingSettings
from dwindle.models.pointer_generator.config import PointerGeneratorConfig
from dwindle.models.pointer_generator.model import PointerGenerator
from dwindle.models.pointer_generator.words import WordCodec
from dwindle.models.top_down import TopDown, TopDownConfig
from dwindle.models.top_down_codec import RegionCodec
from dwindle.models.vocabulary import END, START, Vocabulary
from dwindle.runfiles.arrays import read_coverage
from tests.generation import slow

TEXTS = ["a b c x a d b", "y d z a b", "c c a d", "b", "z y x y"]
CASES = {
    "average": {"length_norm": "average"},
    "gnmt": {"coverage_penalty": "gnmt", "beta": 0.3},
    "gehrmann": {"coverage_penalty": "gehrmann", "beta": 2.0, "stepwise": True},
    "all": {"block_ngrams": 2, "soft_trigrams": 2.0, "stopping": "bound", "min_length": 3},
}


def drawn(model, spread=0.8):
    """Every weight wide, so that attention is sharp."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * spread)
    return model.eval()


def summariser(**settings):
    codec = WordCodec.fitted([("a a b b c d", "a b\nd c")], source_length=6)
    config = PointerGeneratorConfig(
        vocab_size=len(codec.vocabulary), hidden_size=5, embedding_size=4, **settings
    )
    model = drawn(PointerGenerator(config))
    with torch.no_grad():
        model.decoder.score.weight.mul_(3)
    return model, codec, [Example(f"t{i}", text, ("a b",)) for i, text in enumerate(TEXTS)]


def captioner(folder):
    features = np.random.default_rng(0).normal(size=(12, 6)).astype(np.float32)
    np.save(folder / "features.npy", features)
    cuts = [(0, 5), (5, 7), (7, 12)]
    codec = RegionCodec(Vocabulary(["a", "b", "c", "."]), width=6)
    config = TopDownConfig(
        vocab_size=8, feature_size=6, hidden_size=5, embedding_size=4, attention_size=5
    )
    images = [Npy(folder / "features.npy", *cut) for cut in cuts]
    return (
        drawn(TopDown(config), 1.5),
        codec,
        [Example(f"i{n}", f"{n}", ("a",), image=x) for n, x in enumerate(images)],
    )


def looking(model, batch):
    """At a batch of one source."""

    def look(hypotheses):
        sources = {k: v.expand(len(hypotheses), *v.shape[1:]) for k, v in batch.items()}
        sequences = torch.tensor(hypotheses)
        logits = model(**sources, decoder_input_ids=sequences).logits[:, -1]
        # the last row led to a token too
        rows = model.attended(sources, torch.cat([sequences, sequences[:, -1:]], 1))
        return logits, rows.coverage[0]

    return look


def checked(model, codec, examples, settings):
    batch = codec.collate([codec.encode(e.input) for e in examples])
    found = generate(model, batch, settings, codec).tolist()
    for row, example in zip(found, examples, strict=True):
        expected = slow.best(
            looking(model, codec.collate([codec.encode(example.input)])),
            settings,
            START,
            END,
            codec,
        )
        assert row[: len(expected)] == expected
    return found


@pytest.mark.parametrize("name", CASES)
def test_summaries_equal_the_slow_twin(name):
    checked(
        *summariser(coverage=name == "gnmt"),
        DecodingSettings(**{"beams": 3, "max_length": 6, **CASES[name]}),
    )


@pytest.mark.parametrize("name", CASES)
def test_paragraphs_equal_the_slow_twin(name, tmp_path):
    checked(*captioner(tmp_path), DecodingSettings(**{"beams": 3, "max_length": 6, **CASES[name]}))


def test_temporal_attention_for_the_time_of_decoding():
    settings = {"beams": 3, "max_length": 6, "coverage_penalty": "gehrmann", "beta": 1.0}
    model, codec, examples = summariser()
    built = checked(*summariser(temporal=True), DecodingSettings(**settings))
    batch = codec.collate([codec.encode(e.input) for e in examples])
    assert generate(model, batch, DecodingSettings(**settings, temporal=True)).tolist() == built
    assert generate(model, batch, DecodingSettings(**settings)).tolist() != built


def test_a_captioner_has_no_temporal_attention(tmp_path):
    model, codec, examples = captioner(tmp_path)
    batch = codec.collate([codec.encode(e.input) for e in examples])
    with pytest.raises(ValueError, match="TopDown has no temporal attention"):
        generate(model, batch, DecodingSettings(temporal=True))


def test_a_corpus_of_texts(tmp_path):
    """Copied words come back as text, and coverage has one column for each word that was read."""
    model, codec, examples = summariser()
    with torch.no_grad():
        model.switch.bias.fill_(-9)  # copy
    summary = decode(
        model, codec, examples, DecodingSettings(beams=3, max_length=6, batch_size=3), tmp_path
    )
    assert (summary.items, summary.truncated) == (5, 1)
    outputs = [json.loads(line) for line in (tmp_path / "outputs.jsonl").read_text().splitlines()]
    assert set(outputs[-1]["hypothesis"].split()) <= {"x", "y", "z"}
    assert outputs[-1]["hypothesis"]
    widths = {id: both.shape for id, both in read_coverage(tmp_path / "coverage.npz").items()}
    assert widths == {
        "t0": (2, 1, 6),
        "t1": (2, 1, 5),
        "t2": (2, 1, 4),
        "t3": (2, 1, 1),
        "t4": (2, 1, 4),
    }


def test_a_corpus_of_images(tmp_path):
    model, codec, examples = captioner(tmp_path)
    assert (
        decode(model, codec, examples, DecodingSettings(beams=1, max_length=6), tmp_path).items == 3
    )
    widths = {id: both.shape for id, both in read_coverage(tmp_path / "coverage.npz").items()}
    assert widths == {"i0": (2, 1, 5), "i1": (2, 1, 2), "i2": (2, 1, 5)}
