"""A rule survives on disk, and a model that was saved with one is not loaded without it by
accident."""

import copy
import json

import pytest
import torch
import transformers as hf
from safetensors import safe_open

import dwindle
from dwindle.attaching.handle import GATE, MARK
from dwindle.attaching.saved import inspect
from tests.attaching.small import RULE, bart, generated, same, source, t5, target

READS_GATE = hf.BartConfig.from_dict({"attn_implementation": GATE})._attn_implementation == GATE
needs_gate = pytest.mark.skipif(
    not READS_GATE, reason="this release does not read the implementation that was saved"
)


def logits(model):
    with torch.no_grad():
        return model(**source(), decoder_input_ids=target(), use_cache=False).logits


@pytest.fixture
def saved(tmp_path):
    """A model with a rule on two of its layers, and where it was saved."""
    model = bart()
    dwindle.attach(model, RULE, layers=[0, 2])
    model.save_pretrained(tmp_path)
    return model, tmp_path


@pytest.fixture
def said(monkeypatch):
    """What the library logs while loading."""
    lines: list[str] = []
    logger = hf.logging.get_logger("transformers.modeling_utils")
    monkeypatch.setattr(logger, "warning", lambda message, *args, **_: lines.append(str(message)))
    return lines


@pytest.mark.parametrize(
    "auto_class", [None, hf.AutoModelForSeq2SeqLM, hf.BartForConditionalGeneration]
)
def test_comes_back_attached_and_quietly(saved, auto_class, said, capfd):
    model, path = saved
    loaded = dwindle.from_pretrained(path, auto_class).eval()
    assert type(loaded) is type(model)
    assert dwindle.handle_of(loaded).settings.as_dict() == {"rule": RULE, "layers": [0, 2]}
    assert torch.equal(logits(loaded), logits(model))
    assert same(generated(loaded, source(), num_beams=4), generated(model, source(), num_beams=4))
    assert said == []
    assert "UNEXPECTED" not in "".join(capfd.readouterr())
    assert loaded.config._attn_implementation == "sdpa"


def test_options_of_loading_pass_through(saved):
    _, path = saved
    loaded, info = dwindle.from_pretrained(
        path, dtype=torch.bfloat16, attn_implementation="eager", output_loading_info=True
    )
    assert loaded.dtype == torch.bfloat16
    assert loaded.config._attn_implementation == "eager"
    assert dwindle.handle_of(loaded).settings.as_dict()["rule"] == RULE
    assert not info["unexpected_keys"]


def test_a_base_class_comes_back_attached(saved):
    model, path = saved
    base = dwindle.from_pretrained(path, hf.AutoModel).eval()
    assert isinstance(base, hf.BartModel)
    with torch.no_grad():
        outs = [
            m(**source(), decoder_input_ids=target()).last_hidden_state for m in (base, model.model)
        ]
    torch.testing.assert_close(*outs)


def test_a_model_without_a_rule_is_loaded_as_it_is(tmp_path):
    bart().save_pretrained(tmp_path)
    loaded = dwindle.from_pretrained(tmp_path).eval()
    assert torch.equal(logits(loaded), logits(bart()))
    assert not hasattr(loaded.config, "dwindle")


@needs_gate
@pytest.mark.parametrize(
    "load",
    [
        hf.AutoModelForSeq2SeqLM.from_pretrained,
        hf.BartForConditionalGeneration.from_pretrained,
        hf.AutoModel.from_pretrained,
        hf.BartForSequenceClassification.from_pretrained,
    ],
)
def test_loading_without_the_rule_is_refused(saved, load):
    _, path = saved
    with pytest.raises(ValueError, match=GATE):
        load(path)


@pytest.mark.skipif(READS_GATE, reason="this release refuses such a model")
def test_where_the_gate_is_not_read_the_marker_is_reported(saved, said):
    _, path = saved
    hf.AutoModelForSeq2SeqLM.from_pretrained(path)
    assert any(MARK in line for line in said)


@needs_gate
def test_refused_for_composed_models_too(tmp_path):
    shape = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    parts = (
        hf.BertConfig(**shape),
        hf.BertConfig(**shape, is_decoder=True, add_cross_attention=True),
    )
    model = hf.EncoderDecoderModel(hf.EncoderDecoderConfig.from_encoder_decoder_configs(*parts))
    dwindle.attach(model, RULE)
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=GATE):
        hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    loaded = dwindle.from_pretrained(tmp_path)
    assert {m.config._attn_implementation for m in (loaded, loaded.encoder, loaded.decoder)} == {
        "sdpa"
    }
    assert "1 layer of" in str(dwindle.handle_of(loaded))


def test_who_asks_for_an_implementation_is_told_by_the_report(saved, said):
    _, path = saved
    model, info = hf.AutoModelForSeq2SeqLM.from_pretrained(
        path, attn_implementation="sdpa", output_loading_info=True
    )
    assert set(info["unexpected_keys"]) == {MARK}
    assert any(MARK in line for line in said)
    assert torch.equal(logits(model.eval()), logits(bart()))  # the untouched model, on purpose


def test_weights_pass_between_attached_and_plain_models():
    model, plain = bart(), bart(seed=1)
    dwindle.attach(model, RULE)
    model.load_state_dict(plain.state_dict())  # weights from before the rule
    other = bart(seed=2)
    dwindle.attach(other, "dim:log")
    other.load_state_dict(model.state_dict())  # another rule
    with pytest.raises(RuntimeError, match=MARK):
        plain.load_state_dict(model.state_dict())  # a rule that would be lost
    dwindle.detach(model)
    plain.load_state_dict(model.state_dict())


def test_what_is_on_disk(saved):
    _, path = saved
    assert sorted(p.name for p in path.iterdir()) == [
        "README.md",
        "config.json",
        "generation_config.json",
        "model.safetensors",
    ]
    config = json.loads((path / "config.json").read_text())
    assert config["dwindle"] == {"rule": RULE, "layers": [0, 2]}
    assert config["attn_implementation"] == GATE
    with safe_open(path / "model.safetensors", "pt") as file:
        names = set(file.keys())
    assert MARK in names
    assert names - {MARK} < set(bart().state_dict())


def test_inspect(saved):
    _, path = saved
    assert inspect(path) == {
        "path": str(path),
        "class": "BartForConditionalGeneration",
        "model_type": "bart",
        "rule": RULE,
        "dwindle": {"rule": RULE, "layers": [0, 2]},
    }


def test_detached_and_saved_it_carries_nothing(saved, tmp_path):
    _, path = saved
    loaded = dwindle.from_pretrained(path)
    dwindle.detach(loaded)
    loaded.save_pretrained(tmp_path / "plain")
    assert inspect(tmp_path / "plain")["dwindle"] is None
    plain = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "plain").eval()
    assert torch.equal(logits(plain), logits(bart()))


def test_named_modules_come_back(tmp_path):
    model = t5()
    name = "decoder.block.1.layer.1.EncDecAttention"
    dwindle.attach(model, RULE, modules=[name])
    model.save_pretrained(tmp_path)
    loaded = dwindle.from_pretrained(tmp_path).eval()
    assert dwindle.handle_of(loaded).settings.as_dict()["modules"] == [name]
    assert torch.equal(logits(loaded), logits(model))


def test_saved_twice(saved, tmp_path):
    model, path = saved
    again = dwindle.from_pretrained(path)
    again.save_pretrained(tmp_path / "again")
    assert torch.equal(logits(dwindle.from_pretrained(tmp_path / "again").eval()), logits(model))


def test_the_trained_rule_does_not_warn_and_another_does(saved, recwarn):
    _, path = saved
    loaded = dwindle.from_pretrained(path)
    assert not recwarn.list
    with pytest.warns(UserWarning, match="was not trained with dim:log"):
        dwindle.attach(loaded, "dim:log")


@pytest.mark.parametrize("kept", [0, 5, 100, 2000])
def test_truncated_weights_are_named(tmp_path, kept):
    bart().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"model\.safetensors are damaged"):
        dwindle.from_pretrained(tmp_path)


def test_a_folder_that_is_no_model(tmp_path):
    with pytest.raises(ValueError, match=r"has no config\.json"):
        inspect(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        inspect(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="holds no named settings"):
        inspect(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bart"}')
    with pytest.raises(ValueError, match="pass auto_class="):
        dwindle.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    "said", [7, {"rule": "dim:log"}, {"rule": "dim:lgo", "layers": [0]}, {"rule": 3, "layers": [0]}]
)
def test_a_damaged_entry_of_the_config(saved, said):
    _, path = saved
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "dwindle": said}))
    for read in (inspect, dwindle.from_pretrained):
        with pytest.raises(ValueError, match="the rule in this config cannot be read"):
            read(path)


@pytest.mark.parametrize("rule", [RULE, "training-free"])
def test_a_model_made_from_the_config_of_an_attached_one(rule, tmp_path):
    """It has no rule, and its config names none; the attached one keeps its own."""
    model = bart()
    before = model.config.to_dict()
    dwindle.attach(model, rule)
    assert model.config.to_dict() == before
    for other in (
        hf.AutoModelForSeq2SeqLM.from_config(model.config),
        hf.BartForConditionalGeneration(model.config),
        hf.BartForConditionalGeneration(copy.deepcopy(model.config)),
    ):
        assert dwindle.handle_of(other) is None
        other.save_pretrained(tmp_path / "other")
        assert inspect(tmp_path / "other")["rule"] is None
        hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "other")
    model.save_pretrained(tmp_path / "own")
    assert inspect(tmp_path / "own")["rule"] == str(dwindle.rule(rule))
    assert not {"dwindle", "attn_implementation"} & set(vars(model.config))
    copied = copy.deepcopy(model)
    copied.save_pretrained(tmp_path / "copy")
    assert inspect(tmp_path / "copy") == {
        **inspect(tmp_path / "own"),
        "path": str(tmp_path / "copy"),
    }
