"""The library's ``pipeline`` with an attached model, and models whose weights are on the meta
device or elsewhere."""

import pytest
import torch
import transformers as hf
from accelerate import cpu_offload, disk_offload, init_empty_weights, load_checkpoint_and_dispatch
from tokenizers import Tokenizer, models, pre_tokenizers

import dwindle
from tests.attaching.small import RULE, bart, source, t5, target
from tests.attaching.test_threads import llama


def words() -> hf.PreTrainedTokenizerFast:
    """A tokenizer of words w0, w1 and so on."""
    words = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{i}" for i in range(36))]
    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return hf.PreTrainedTokenizerFast(tokenizer_object=core, padding_side="left", **special)


@pytest.fixture(scope="module")
def tokenizer() -> hf.PreTrainedTokenizerFast:
    return words()


@pytest.mark.parametrize("rule", [RULE, "training-free"])
def test_text_generation(rule, tokenizer):
    """What it writes is what ``generate`` writes: one text, several in a batch, and with a span
    around it."""
    model = llama()
    dwindle.attach(model, rule, source="prompt")
    writer = hf.pipeline("text-generation", model=model, tokenizer=tokenizer)
    assert dwindle.handle_of(writer.model) is not None
    texts = ["w1 w2 w3 w4 w5 w6", "w7 w8 w9"]
    settings = {"max_new_tokens": 6, "do_sample": False, "return_full_text": False}
    given = tokenizer(texts, return_tensors="pt", padding=True)
    given.pop("token_type_ids", None)
    mask = torch.zeros_like(given["input_ids"]).bool()
    mask[:, 3:5] = True

    def direct() -> list[str]:
        with torch.no_grad():
            tokens = model.generate(**given, max_new_tokens=6, do_sample=False)
        return tokenizer.batch_decode(
            tokens[:, given["input_ids"].shape[1] :], skip_special_tokens=True
        )

    def piped() -> list[str]:
        return [
            found[0]["generated_text"].strip() for found in writer(texts, batch_size=2, **settings)
        ]

    whole = direct()
    assert piped() == whole
    with dwindle.source_span(model, mask):
        assert piped() == direct()
    with dwindle.record(model) as records:
        writer(texts[0], **settings)
    assert len(records) == 1
    dwindle.detach(model)
    assert rule != RULE or direct() != whole  # the rule was in what it wrote


def recogniser() -> tuple[hf.PreTrainedModel, hf.FeatureExtractionMixin]:
    torch.manual_seed(0)
    sizes = {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
    }
    sizes |= {
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "conv_channels": 16,
        "input_feat_per_channel": 8,
    }
    ids = {
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
        "init_std": 1.0,
    }
    model = hf.Speech2TextForConditionalGeneration(
        hf.Speech2TextConfig(vocab_size=40, **sizes, **ids)
    ).eval()
    extractor = hf.Speech2TextFeatureExtractor(feature_size=8, num_mel_bins=8)
    return model, extractor


@pytest.mark.parametrize("rule", [RULE, "training-free"])
def test_speech_recognition(rule, tokenizer):
    """The task that the library still has for an encoder-decoder: what it writes is what
    ``generate`` writes."""
    model, extractor = recogniser()
    dwindle.attach(model, rule)
    task = "automatic-speech-recognition"
    writer = hf.pipeline(task, model=model, tokenizer=tokenizer, feature_extractor=extractor)
    assert dwindle.handle_of(writer.model) is not None
    sound = torch.randn(8_000).numpy()
    given = extractor(sound, sampling_rate=16_000, return_tensors="pt")

    def direct() -> str:
        with torch.no_grad():
            return tokenizer.decode(
                model.generate(**given, max_new_tokens=8)[0], skip_special_tokens=True
            )

    whole = direct()
    assert len(whole.split()) > 4
    assert writer(sound, generate_kwargs={"max_new_tokens": 8})["text"] == whole
    with dwindle.record(model) as records:
        writer(sound, generate_kwargs={"max_new_tokens": 8})
    (record,) = records
    assert not torch.allclose(record.weights, record.attention)  # the rule was in what it wrote


@pytest.mark.parametrize("rule", [RULE, "training-free"])
@pytest.mark.parametrize("build", [bart, t5])
def test_a_model_on_the_meta_device(build, rule):
    """Shapes without numbers, and weights that come after the rule."""
    with torch.device("meta"):
        empty = build(attention="eager")  # the library's other masks look at numbers
    real = build(attention="eager")
    dwindle.attach(empty, rule)
    dwindle.attach(real, rule)
    # so do its masks of padding
    given = {"input_ids": source()["input_ids"], "decoder_input_ids": target()}
    with torch.no_grad():
        shape = empty(**{name: x.to("meta") for name, x in given.items()}, use_cache=False).logits
        right = real(**given, use_cache=False).logits
        assert shape.is_meta
        assert shape.shape == right.shape
        empty.load_state_dict(real.state_dict(), assign=True)
        assert not next(empty.parameters()).is_meta
        found = empty.eval()(**given, use_cache=False).logits
    torch.testing.assert_close(found, right, rtol=0, atol=1e-4)


def _dispatched(model, folder):
    """All in memory, through accelerate's reader of checkpoints."""
    return load_checkpoint_and_dispatch(model, str(folder), device_map={"": "cpu"})


def _on_disk(model, folder):
    """In memory only while a module runs; between calls its weights are on the meta device."""
    model = _dispatched(model, folder)
    disk_offload(model, str(folder / "parts"), execution_device=torch.device("cpu"))
    assert all(p.is_meta for p in model.parameters())
    return model


def _off(model, folder):
    model = _dispatched(model, folder)
    cpu_offload(model, execution_device=torch.device("cpu"))
    assert all(p.is_meta for p in model.parameters())
    return model


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("place", [_dispatched, _on_disk, _off])
@pytest.mark.parametrize("build", [bart, t5])
def test_weights_that_come_later_or_lie_elsewhere(build, place, when, tmp_path):
    """A model made empty, its rule attached before or after its weights: to the digit what a whole
    model gives."""
    real = build()
    real.save_pretrained(tmp_path)
    dwindle.attach(real, "training-free")
    with init_empty_weights():
        model = type(real)(hf.AutoConfig.from_pretrained(tmp_path))
    if when == "before":
        dwindle.attach(model, "training-free")
    model.tie_weights()
    model = place(model, tmp_path).eval()
    if when == "after":
        dwindle.attach(model, "training-free")
    settings = {"num_beams": 2, "max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
    with torch.no_grad():
        logits = [
            m(**source(), decoder_input_ids=target(), use_cache=False).logits for m in (model, real)
        ]
        assert torch.equal(*logits)
        assert torch.equal(*(m.generate(**source(), **settings) for m in (model, real)))
        dwindle.detach(model)
        assert not torch.equal(
            model(**source(), decoder_input_ids=target(), use_cache=False).logits, logits[1]
        )
