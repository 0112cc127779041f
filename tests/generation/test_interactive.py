"""Authors: watched and stopped without a change in what they write, with any rule and back, and
honest."""

import json

import numpy as np
import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

from dwindle import attach
from dwindle.generation.interactive import Author
from dwindle.generation.settings import DecodingSettings
from dwindle.models import build
from tests.generation.test_tracing import TEXT, made

SHORT = DecodingSettings(beams=1, max_length=8)


@pytest.fixture(scope="module", params=["pointer-generator", "bart", "llama"])
def author(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / request.param
    if request.param == "llama":
        decoder_only(folder, rule="dim:boxcox(0.5)")
    else:
        build.save(*made(request.param, rule="dim:boxcox(0.5)"), folder)
    return Author(str(folder))


def decoder_only(folder, rule=None):
    """A small model without an encoder, and the tokenizer of another."""
    tokenizer = made("bart")[1].tokenizer
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 2,
        "max_position_embeddings": 90,
    }
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    torch.manual_seed(1)
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=len(tokenizer), num_attention_heads=2, **sizes, **special)
    )
    if rule:
        attach(model, rule, source="prompt")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("rule", [None, "plain", "dydim:log,power(0.5)"])
def test_being_watched_changes_nothing(author, beams, rule):
    settings = DecodingSettings(beams=beams, max_length=12)
    author.put(rule)
    alone = author.write(TEXT, settings)
    shown = []
    watched = author.write(TEXT, settings, shown.append)
    assert watched.output == alone.output
    assert np.array_equal(watched.weights, alone.weights)
    assert shown
    assert len(shown[0].output) == 1
    assert shown[0].weights.shape == (1, len(alone.source))
    assert alone.weights.shape == (len(alone.output), len(alone.source))


@pytest.mark.parametrize("beams", [1, 3])
def test_it_stops_after_the_step_in_which_it_is_told(author, beams):
    asked = []

    def stop():
        asked.append(1)
        return len(asked) == 4

    cut = author.write(
        TEXT, DecodingSettings(beams=beams, max_length=12, min_length=10), None, stop
    )
    assert len(asked) == 4
    assert cut.weights.shape[0] == 4


def test_another_rule_and_back_to_its_own(author):
    settings = DecodingSettings(beams=1, max_length=8)
    author.put(None)
    own = author.write(TEXT, settings)
    author.put("plain")
    plain = author.write(TEXT, settings)
    assert np.allclose(plain.attention, plain.weights)
    author.put(None)
    again = author.write(TEXT, settings)
    assert again.output == own.output
    assert np.array_equal(again.weights, own.weights)
    assert author.rule == "dim:boxcox(0.5)"


def test_a_twin_has_its_own_rule_and_the_same_weights(author):
    author.put(None)
    before, twin = author.write(TEXT, SHORT), author.twin()
    twin.put("plain")
    assert [w.data_ptr() for w in twin.model.parameters()] == [
        w.data_ptr() for w in author.model.parameters()
    ]
    plain, again = twin.write(TEXT, SHORT), author.write(TEXT, SHORT)
    assert np.allclose(plain.attention, plain.weights)
    assert again.output == before.output
    assert np.array_equal(again.weights, before.weights)
    assert not np.allclose(again.attention, again.weights)


def test_a_rule_that_the_model_was_not_trained_with_is_said(author):
    notes = author.put("dim:log")
    author.put(None)
    # one that is built in has nothing to compare with
    assert bool(notes) == (author.layers is not None)
    assert author.put("training-free") == []
    author.put(None)
    with pytest.raises(ValueError, match="nonsense"):
        author.put("nonsense")


def test_what_is_cut_and_what_is_unknown_are_said_before(author):
    assert author.remarks(TEXT) == []
    (cut,) = author.remarks("\n".join([TEXT] * 40))
    assert "longer" in cut
    *_, strange = author.remarks("Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich")
    assert "not in the vocabulary" in strange
    assert "zwölf" in strange.lower()


def test_it_decodes_as_its_run_does(tmp_path):
    build.save(*made("pointer-generator"), tmp_path / "seed-1" / "model")
    (tmp_path / "seed-1" / "recipe.yaml").write_text(
        json.dumps({"decoding": {"beams": 2, "max_length": 7}})
    )
    author = Author(str(tmp_path / "seed-1"))
    assert author.usual == DecodingSettings(beams=2, max_length=7)
    assert author.name == f"{tmp_path.name}/seed-1"


def test_it_decodes_as_its_makers_say(tmp_path):
    model, codec = made("bart")
    model.generation_config.update(
        num_beams=3, max_length=9, no_repeat_ngram_size=2, length_penalty=2.0
    )
    model.save_pretrained(tmp_path)
    codec.tokenizer.save_pretrained(tmp_path)
    expected = DecodingSettings(beams=3, max_length=9, block_ngrams=2, alpha=2.0, stopping="bound")
    assert Author(str(tmp_path)).usual == expected


def test_a_prompt_is_continued_as_the_library_does(tmp_path):
    decoder_only(tmp_path)
    author = Author(str(tmp_path))
    batch = author.codec.collate([author.codec.encode(TEXT)])
    ids = author.model.generate(**batch, max_new_tokens=9, do_sample=False)
    written = author.codec.tokenizer.decode(
        ids[0, batch["input_ids"].shape[1] :], skip_special_tokens=True
    )
    assert "".join(
        author.write(TEXT, DecodingSettings(beams=1, max_length=9)).output
    ) == written.rstrip("\ufffd")
    assert batch["input_ids"][0, 0] == 1
    assert 2 not in batch["input_ids"]
    with pytest.raises(ValueError, match="write at most"):
        author.write(TEXT, DecodingSettings(beams=1, max_length=85))


def test_a_model_of_sounds_is_refused_in_one_sentence(tmp_path):
    layers = {
        f"{side}_{what}": 1
        for side in ("encoder", "decoder")
        for what in ("layers", "attention_heads", "ffn_dim")
    }
    special = dict.fromkeys(
        ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 1
    )
    config = WhisperConfig(d_model=8, vocab_size=30, max_source_positions=4, **layers, **special)
    WhisperForConditionalGeneration(config).save_pretrained(tmp_path)
    made("bart")[1].tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="reads sounds or images"):
        Author(str(tmp_path))
