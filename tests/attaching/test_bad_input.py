"""What cannot work is refused in one sentence that says what to do."""

import pytest
import torch
import transformers as hf
from torch.nn.attention.flex_attention import create_block_mask

import dwindle
from tests.attaching.small import RULE, bart, source, target


def test_no_cross_attention():
    config = hf.LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    with pytest.raises(
        ValueError, match=r"LlamaForCausalLM has no cross-attention: .*source='prompt'"
    ):
        dwindle.attach(hf.LlamaForCausalLM(config), RULE)


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        (4, "layers=4, but this model has 3 cross-attention layers: pass 1 to 3"),
        (0, "pass 1 to 3"),
        (-1, "pass 1 to 3"),
        ([3], r"layers=\[3\], but the cross-attention layers are numbered 0 to 2"),
        ([-4], "numbered 0 to 2"),
        ([], "numbered 0 to 2"),
        (
            "last",
            "layers='last': pass how many of the last layers, a list of indices, or None for all",
        ),
        ([0.5], r"layers=\[0.5\]: pass how many of the last layers"),
    ],
)
def test_a_layer_that_does_not_exist(layers, said):
    with pytest.raises(ValueError, match=said):
        dwindle.attach(bart(), RULE, layers=layers)


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        (
            ["model.decoder.layers.9.encoder_attn"],
            "this model has no module 'model.decoder.layers.9.encoder_attn'",
        ),
        (
            ["model.decoder"],
            "model.decoder is a BartDecoder, which computes no attention weights itself",
        ),
    ],
)
def test_a_module_that_is_none(modules, said):
    with pytest.raises(ValueError, match=said):
        dwindle.attach(bart(), RULE, modules=modules)


def test_a_typo_in_the_rule():
    with pytest.raises(ValueError, match="unknown function 'lgo': did you mean 'log'"):
        dwindle.attach(bart(), "dim:lgo")


def test_a_function_in_place_of_a_rule():
    with pytest.raises(
        ValueError,
        match=r"log is a function, not a rule: attach Dim\(Log\(.*\)\), or write 'dim:log'",
    ):
        dwindle.attach(bart(), dwindle.Log())


def test_a_backend_that_does_not_exist():
    with pytest.raises(ValueError, match="unknown backend 'cuda': choose one of 'cpu', "):
        dwindle.attach(bart(), RULE, backend="cuda")


def test_flex_attention():
    with pytest.raises(
        ValueError, match="load the model with attn_implementation='sdpa' or 'eager'"
    ):
        dwindle.attach(bart(attention="flex_attention"), RULE)


def test_flex_attention_masks():
    """Chosen after the rule was attached: the mask itself is refused."""
    model = bart()
    dwindle.attach(model, RULE)
    model.set_attn_implementation("flex_attention")
    mask = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 7, 7, device="cpu")
    with pytest.raises(
        ValueError, match="load the model with attn_implementation='sdpa' or 'eager'"
    ):
        model.model.decoder.layers[0](torch.randn(1, 7, 32), mask, torch.randn(1, 9, 32))


def test_special_tokens_without_ids():
    model = bart()
    dwindle.attach(model, "training-free")
    with pytest.raises(ValueError, match="call the model with input_ids"):
        model(inputs_embeds=torch.randn(1, 4, 32), decoder_input_ids=target(batch=1))


def test_special_tokens_of_another_batch_are_not_used():
    """States of an encoder that was called elsewhere, after the model has seen another source."""
    model = bart()
    dwindle.attach(model, "training-free")
    model(**source(), decoder_input_ids=target())
    states = hf.modeling_outputs.BaseModelOutput(last_hidden_state=torch.randn(3, 4, 32))
    with pytest.raises(ValueError, match="call the model with input_ids"):
        model(encoder_outputs=states, decoder_input_ids=target(batch=3))


def test_what_is_no_model():
    with pytest.raises(ValueError, match="Linear has no cross-attention"):
        dwindle.attach(torch.nn.Linear(2, 2), RULE)


def test_an_attached_module_called_past_its_hook():
    model = bart()
    dwindle.attach(model, RULE)
    module = model.model.decoder.layers[0].encoder_attn
    with pytest.raises(ValueError, match="was called without its hook"):
        module.forward(torch.randn(1, 2, 32), torch.randn(1, 3, 32))


def test_threads_of_data_parallel():
    """Its replicas share their hooks, and what these see of a call. (It marks replicas so; it needs
    several GPUs.)"""
    model = bart()
    dwindle.attach(model, RULE)
    model.model.decoder.layers[0].encoder_attn._is_replica = True
    with pytest.raises(ValueError, match="start one process per device"):
        model(**source(), decoder_input_ids=target())


def test_cross_attention_in_one_fused_call():
    """As BERT's before transformers 5.0: it has no weights that a rule could diminish."""

    class Fused(torch.nn.Module):
        def forward(self, q, k, v):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    model = bart()
    for layer in model.model.decoder.layers:
        layer.encoder_attn = Fused()
    with pytest.raises(
        ValueError, match="is one fused call: load the model with attn_implementation='eager'"
    ):
        dwindle.attach(model, RULE)
