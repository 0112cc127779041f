"""The published sizes: parameters counted by hand, on a device that holds none."""

from types import SimpleNamespace

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration, T5Config
from transformers import T5ForConditionalGeneration as T5
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

from dwindle.models import presets
from dwindle.models.settings import ModelSettings


class Vocabulary(SimpleNamespace):
    pad_token_id, bos_token_id, eos_token_id = 0, 1, 2

    def __len__(self) -> int:
        return self.size


def count(model: torch.nn.Module) -> int:
    model.tie_weights()  # 5.0 does it only where there are weights
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def layer(width: int, ffn: int, attentions: int) -> int:
    """Attentions of four square matrices, a feed-forward net of two, a norm after each, biases
    everywhere."""
    return (
        attentions * 4 * (width**2 + width)
        + 2 * width * ffn
        + ffn
        + width
        + (attentions + 1) * 2 * width
    )


def stacks(width: int, ffn: int, layers: int) -> int:
    return layers * (layer(width, ffn, 1) + layer(width, ffn, 2))


@pytest.mark.parametrize(("size", "numbers"), [("big", (1024, 4096, 6)), ("base", (512, 2048, 6))])
def test_transformer(size, numbers, monkeypatch):
    """Ott et al.: one table of embeddings for source, target and output; sinusoids are no
    parameters."""
    # Their values do not matter here, and the library computes them one by one.
    if hasattr(MarianSinusoidalPositionalEmbedding, "create_weight"):
        monkeypatch.setattr(
            MarianSinusoidalPositionalEmbedding, "create_weight", lambda self: self.weight
        )
    else:  # before 5.0
        frozen = lambda self: self.weight.requires_grad_(False)  # noqa: E731
        monkeypatch.setattr(MarianSinusoidalPositionalEmbedding, "_init_weight", frozen)
    with torch.device("meta"):
        model = presets.transformer(presets.shape("transformer", size), Vocabulary(size=32768), 256)
    assert count(model) == 32768 * numbers[0] + stacks(*numbers)
    if size == "big":
        assert count(model) == 209_911_808
        assert model.config.dropout == 0.3


def test_bart_large():
    """406,291,456, as the published checkpoint has; two rows of its positions are never used."""
    with torch.device("meta"):
        model = presets.bart(presets.shape("bart", "big"), Vocabulary(size=50265), 1024)
    # words, positions, norms after them
    tables = 50265 * 1024 + 2 * (1024 + 2) * 1024 + 2 * 2 * 1024
    assert count(model) == tables + stacks(1024, 4096, 12) == 406_291_456


def test_bertsum():
    """BERT-base, 109,482,240 less its pooler, and PreSumm's decoder: 6 layers of 768, 2048 inside,
    8 heads."""
    with torch.device("meta"):
        model = presets.bertsum(
            presets.shape("bertsum", "base"), Vocabulary(size=30522), 512, presets.BERT["base"]
        )
    tables = (30522 + 512 + 2 + 2) * 768  # words, positions, segments, a norm
    assert count(model.encoder) == tables + 12 * layer(768, 3072, 1) == 109_482_240 - (768**2 + 768)
    # Words once, for the output has them too; the last norm; a bias for every word.
    assert count(model.decoder) == 30522 * 768 + 6 * layer(768, 2048, 2) + 2 * 768 + 30522
    assert count(model) == 179_631_930
    assert model.config.decoder.decoder_attention_heads == 8


def test_bertsum_begins_with_the_words_of_bert():
    model = presets.bertsum(
        presets.shape("bertsum", "tiny"), Vocabulary(size=50), 16, presets.BERT["tiny"]
    )
    words = [part.get_input_embeddings().weight for part in (model.encoder, model.decoder)]
    assert torch.equal(*words)
    assert words[0].data_ptr() != words[1].data_ptr()


def test_room_for_more_positions_than_a_start_has():
    with torch.device("meta"):
        bart = BartForConditionalGeneration(BartConfig(max_position_embeddings=40))
        relative = T5(T5Config(num_layers=1))
    presets.lengthen(bart, 40)
    with pytest.raises(ValueError, match="this bart model has 40 positions"):
        presets.lengthen(bart, 41)
    presets.lengthen(relative, 5000)  # relative positions have no end


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kind": "gpt"}, "pointer-generator, transformer, bertsum"),
        ({"kind": "bart", "source_length": 1}, "2 or more"),
        ({"kind": "bart", "dropout": 1.0}, "below 1"),
        ({"kind": "bart", "coverage": True}, "pointer-generator's"),
        ({"kind": "bart", "rule": "dimm:log"}, "dim"),
    ],
)
def test_settings_that_make_no_sense(given, says):
    with pytest.raises(ValueError, match=says):
        ModelSettings(**given)


def test_sizes_that_a_kind_does_not_have():
    with pytest.raises(ValueError, match="a bertsum comes as tiny, base"):
        presets.shape("bertsum", "huge")
    with pytest.raises(ValueError, match="no dropout"):
        presets.shape("pointer-generator", "tiny", 0.1)
