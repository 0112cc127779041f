"""Temporal attention in whole models of the library, with their registry of attention functions and
without."""

import copy
import math

import pytest
import torch
import transformers as hf
from transformers.modeling_utils import AttentionInterface

from dwindle.attaching.handle import attach, handle_of
from dwindle.attaching.saved import from_pretrained
from dwindle.generation.generate import generate
from dwindle.generation.settings import DecodingSettings
from tests.generation import slow

SETTINGS = DecodingSettings(beams=3, max_length=8, temporal=True)


def led(seed=1):
    """A family whose softmax is written by hand."""
    torch.manual_seed(seed)
    config = hf.LEDConfig(
        **{
            "encoder_layers": 1,
            "decoder_layers": 2,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
        },
        vocab_size=slow.WORDS,
        d_model=16,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        max_encoder_position_embeddings=32,
        max_decoder_position_embeddings=32,
        attention_window=4,
        init_std=0.5,
        dropout=0.0,
        pad_token_id=slow.PAD,
        bos_token_id=0,
        eos_token_id=slow.END,
        decoder_start_token_id=slow.END,
    )
    return hf.LEDForConditionalGeneration(config).eval()


def from_the_equations(module, query, key, value, mask, scaling, dropout=0.0, **_):
    """An attention function of the library that loops over rows, items and heads."""
    scores = (query @ key.transpose(-2, -1)) * scaling
    if mask is not None:
        scores = (
            scores.masked_fill(mask < -1, -math.inf)
            if mask.dtype != torch.bool
            else scores.masked_fill(~mask, -math.inf)
        )
    rows = []
    for t in range(scores.shape[2]):
        past = scores[:, :, :t].exp().sum(2) if t else torch.ones_like(scores[:, :, 0])
        divided = scores[:, :, t].exp() / past.where(past > 0, 1)
        rows.append(divided / divided.sum(-1, keepdim=True))
    return (torch.stack(rows, 2) @ value).transpose(1, 2).contiguous(), None


def test_a_whole_model_from_the_equations():
    """All layers, padded sources, teacher forcing."""
    AttentionInterface.register("temporal-loop", from_the_equations)
    inputs, words = slow.batch(), torch.randint(4, slow.WORDS, (4, 6))
    ours, loop = slow.model(1), slow.model(1)
    attach(ours, "temporal")
    for layer in loop.model.decoder.layers:
        layer.encoder_attn.config = copy.copy(layer.encoder_attn.config)
        layer.encoder_attn.config.__dict__["_attn_implementation_internal"] = "temporal-loop"
    logits = [m(**inputs, decoder_input_ids=words).logits for m in (ours, loop, slow.model(1))]
    assert torch.allclose(logits[0], logits[1], atol=1e-4)
    assert not torch.allclose(logits[0], logits[2], atol=1e-1)


@pytest.mark.parametrize(
    "make", [slow.model, lambda seed: slow.model(seed, attn_implementation="sdpa"), led]
)
def test_training_equals_decoding(make):
    """All rows at once, and one by one through the cache."""
    model = make(1)
    attach(model, "temporal")
    inputs, words = slow.batch(), torch.randint(4, slow.WORDS, (4, 6))
    with torch.no_grad():
        whole = model(**inputs, decoder_input_ids=words).logits
        cache, rows = None, []
        for t in range(6):
            out = model(
                **inputs,
                decoder_input_ids=words[:, t : t + 1],
                past_key_values=cache,
                use_cache=True,
            )
            cache = out.past_key_values
            rows.append(out.logits)
    assert torch.allclose(torch.cat(rows, 1), whole, atol=1e-4)


def test_it_can_be_trained_and_saved(tmp_path):
    model = slow.model(1)
    attach(model, "temporal", 1)
    words = torch.randint(4, slow.WORDS, (4, 6))
    model(**slow.batch(), labels=words).loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    model.save_pretrained(tmp_path)
    logits = [m(**slow.batch(), labels=words).logits for m in (from_pretrained(tmp_path), model)]
    assert torch.allclose(*logits, atol=1e-5)


@pytest.mark.parametrize(
    "case", [{}, {"coverage_penalty": "gehrmann", "beta": 1.0, "stepwise": True}]
)
def test_a_search_equals_the_slow_twin(case):
    settings = DecodingSettings(**{"beams": 3, "max_length": 8, "temporal": True, **case})
    model, batch = slow.model(1), slow.batch(seed=1)
    found = generate(model, batch, settings).tolist()
    assert handle_of(model) is None
    attach(model, "temporal")
    for row, ids, mask in zip(found, batch["input_ids"], batch["attention_mask"], strict=True):
        expected = slow.best(slow.looking(model, ids[mask.bool()]), settings)
        assert row[: len(expected)] == expected
        assert set(row[len(expected) :]) <= {slow.PAD}
    assert generate(model, batch, settings).tolist() == found  # a model that has it keeps it


def test_not_on_top_of_a_rule():
    model = slow.model()
    attach(model, "dim:log")
    with pytest.raises(
        ValueError, match="has the rule dim:log, and temporal attention takes its place"
    ):
        generate(model, slow.batch(), SETTINGS)
