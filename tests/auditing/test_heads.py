"""Peaks from hooks against the weights that the library itself gives out, family by family."""

import pytest
import torch
import transformers as hf

import dwindle
from dwindle.auditing.heads import all_heads, peaks
from tests.attaching.makers import BART, T5

FAMILIES = {
    "marian": (hf.MarianMTModel, hf.MarianConfig, BART),
    "m2m": (hf.M2M100ForConditionalGeneration, hf.M2M100Config, BART),
    "bart": (hf.BartForConditionalGeneration, hf.BartConfig, BART),
    "mbart": (hf.MBartForConditionalGeneration, hf.MBartConfig, BART),
    "t5": (hf.T5ForConditionalGeneration, hf.T5Config, T5),
}
SOURCE = {
    "input_ids": torch.tensor([[5, 9, 7, 11, 2], [8, 6, 2, 1, 1]]),
    "attention_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
}
OUTPUT = torch.tensor([[2, 12, 13, 14], [2, 15, 16, 1]])
ROWS = torch.tensor([[False, True, True, True], [False, True, True, False]])


def build(family):
    model, config, settings = FAMILIES[family]
    made = model(config(**settings)).eval()
    for weight in made.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    return made


def spelled_out(model, rows):
    """(B, L * H, S): the library's own weights, the largest of the rows that count."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        found = model(
            **SOURCE, decoder_input_ids=OUTPUT, output_attentions=True, use_cache=False
        ).cross_attentions
    return torch.cat(found, 1).masked_fill(~rows[:, None, :, None], 0).amax(2)


@pytest.mark.parametrize("family", FAMILIES)
def test_peaks_are_those_of_the_librarys_weights(family):
    model = build(family)
    heads = all_heads(model)
    found = peaks(model, heads, SOURCE, OUTPUT, ROWS)
    torch.testing.assert_close(found, spelled_out(model, ROWS))
    some = [heads[3], heads[0]]
    torch.testing.assert_close(peaks(model, some, SOURCE, OUTPUT, ROWS), found[:, [3, 0]])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_source_of_several_outputs_is_encoded_once(family, monkeypatch):
    model = build(family)
    heads = all_heads(model)
    thrice = {key: value[[0, 1, 0, 0]] for key, value in SOURCE.items()}
    outputs, rows = OUTPUT[[0, 1, 1, 0]], ROWS[[0, 1, 1, 0]]
    alone = [
        peaks(model, heads, {k: v[[n]] for k, v in thrice.items()}, outputs[[n]], rows[[n]])
        for n in range(4)
    ]
    encoded = []
    encoder = model.get_encoder()
    hook = encoder.register_forward_hook(
        lambda module, args, output: encoded.append(len(output.last_hidden_state))
    )
    torch.testing.assert_close(peaks(model, heads, thrice, outputs, rows), torch.cat(alone))
    hook.remove()
    assert encoded == [2]


def test_the_pass_ends_at_the_last_layer_that_is_listened_to():
    model = build("marian")
    layers = model.get_decoder().layers
    ran = []
    hooks = [
        layer.fc1.register_forward_hook(lambda *_, n=n: ran.append(n))
        for n, layer in enumerate(layers)
    ]
    peaks(model, [(0, 0)], SOURCE, OUTPUT, ROWS)
    assert ran == []
    peaks(model, [(1, 0)], SOURCE, OUTPUT, ROWS)
    assert ran == [0]
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize("rule", ["dim:log", "training-free"])
def test_a_pass_that_ended_early_leaves_nothing_behind(rule):
    model = build("bart")
    handle = dwindle.attach(model, rule)
    before = model(**SOURCE, decoder_input_ids=OUTPUT).logits
    peaks(model, [(0, 0)], SOURCE, OUTPUT, ROWS)
    torch.testing.assert_close(model(**SOURCE, decoder_input_ids=OUTPUT).logits, before)
    handle.detach()


def test_a_rule_does_not_change_what_is_heard_of_plain_attention():
    model = build("bart")
    plain = peaks(model, [(0, 1)], SOURCE, OUTPUT, ROWS)
    with_rule = build("bart")
    with_rule.load_state_dict(model.state_dict())
    handle = dwindle.attach(with_rule, dwindle.rule("dim:log"))
    torch.testing.assert_close(peaks(with_rule, [(0, 1)], SOURCE, OUTPUT, ROWS), plain)
    handle.detach()


def test_hooks_are_gone_and_the_mode_is_back():
    model = build("marian").train()
    peaks(model, [(0, 0)], SOURCE, OUTPUT, ROWS)
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


def test_a_layer_that_is_not_there():
    with pytest.raises(ValueError, match="choose its listeners again"):
        peaks(build("t5"), [(7, 0)], SOURCE, OUTPUT, ROWS)
