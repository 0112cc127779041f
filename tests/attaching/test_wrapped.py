"""Forwards that somebody has wrapped, before a rule comes or after it: both stay, and both go
alone."""

import copy
from typing import Any

import pytest
import torch
import transformers as hf
from accelerate import cpu_offload
from accelerate.hooks import ModelHook, add_hook_to_module, remove_hook_from_module
from torch import Tensor

import dwindle
from tests.attaching.small import RULE, bart, source, target


def mvp() -> hf.MvpForConditionalGeneration:
    """Its cross-attention is written by hand."""
    torch.manual_seed(0)
    shape = {
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
    }
    sizes = {
        "vocab_size": 40,
        "d_model": 16,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "init_std": 0.4,
    }
    return hf.MvpForConditionalGeneration(
        hf.MvpConfig(**sizes, **shape, max_position_embeddings=32)
    ).eval()


MODELS = pytest.mark.parametrize("build", [mvp, bart])


def logits(model) -> Tensor:
    with torch.no_grad():
        return model(**source(), decoder_input_ids=target(), use_cache=False).logits


def module_of(model) -> Any:
    return model.model.decoder.layers[0].encoder_attn


class Counting(ModelHook):
    """A hook of accelerate: it is called around every forward, and doubles what comes out."""

    calls = 0

    def pre_forward(self, module, *args, **kwargs):
        self.calls += 1
        return args, kwargs

    def post_forward(self, module, output):
        return (output[0] * 2, *output[1:])


def hooked(model) -> Counting:
    hook = Counting()
    add_hook_to_module(module_of(model), hook)
    return hook


@MODELS
def test_wrapped_before_attaching(build):
    model, other = build(), build()
    hook = hooked(model)
    plain = logits(model)
    with dwindle.attach(model, RULE):
        with_rule = logits(model)
        assert hook.calls == 2
    assert torch.equal(logits(model), plain)
    assert hook.calls == 3
    remove_hook_from_module(module_of(model))
    assert torch.equal(logits(model), logits(other))
    dwindle.attach(other, RULE)
    hooked(other)
    torch.testing.assert_close(with_rule, logits(other))
    assert not torch.allclose(with_rule, plain)


@MODELS
def test_wrapped_after_attaching(build):
    model, other = build(), build()
    plain = logits(model)
    handle = dwindle.attach(model, RULE)
    hook = hooked(model)
    right = logits(model)
    assert hook.calls == 1
    handle.detach()
    hooked(other)
    assert torch.equal(logits(model), logits(other))  # the hook stays
    assert hook.calls == 2
    dwindle.attach(model, RULE)
    assert torch.equal(logits(model), right)
    dwindle.detach(model)
    remove_hook_from_module(module_of(model))
    assert torch.equal(logits(model), plain)


@MODELS
def test_a_wrapper_that_knows_only_the_module_s_arguments(build):
    model = build()
    with dwindle.attach(model, RULE):
        right = logits(model)
    module, calls = module_of(model), []
    inner = module.forward

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        calls.append(sorted(kwargs))
        return inner(*args, **kwargs)

    module.forward = wrapper
    with dwindle.attach(model, RULE):
        assert torch.equal(logits(model), right)
    assert module.forward is wrapper
    assert not any("dwindle_pass" in names for names in calls) or build is bart


def test_a_rule_that_was_wrapped_away_is_told():
    """accelerate puts back the forward that was there when its hook came, and with it goes ours."""
    model = mvp()
    hooked(model)
    dwindle.attach(model, RULE)
    remove_hook_from_module(module_of(model))
    with pytest.raises(
        ValueError, match=r"layers\.0\.encoder_attn was replaced, and the rule with it"
    ):
        logits(model)


# older releases, of weights elsewhere
@pytest.mark.filterwarnings("ignore:You are calling .generate")
@MODELS
def test_offloaded_to_the_meta_device(build):
    """A device map: between calls the weights are on the meta device, and come when they are
    needed."""
    model, other = build(), build()
    dwindle.attach(other, RULE)
    right = logits(other)
    for attach_first in (True, False):
        one = copy.deepcopy(model)
        if attach_first:
            dwindle.attach(one, RULE)
        cpu_offload(one, execution_device=torch.device("cpu"))
        if not attach_first:
            dwindle.attach(one, RULE)
        assert next(one.parameters()).is_meta
        torch.testing.assert_close(logits(one), right)
        with torch.no_grad():
            found = one.generate(**source(), max_new_tokens=5, num_beams=2)
            assert torch.equal(found, other.generate(**source(), max_new_tokens=5, num_beams=2))
