"""Compiled as one graph, an attached model gives what it gives uncompiled, and is not compiled
again at each step."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

import dwindle
from dwindle.core.backends import polynomial
from tests.attaching.prompts import batch, made
from tests.attaching.small import RULE, bart, generated, same, source, target

RULES = [pytest.param(RULE, marks=pytest.mark.slow), "training-free"]
BEAMS = [pytest.param(1, marks=pytest.mark.slow), 4]


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def attached(rule):
    model = bart(encoder_layers=1, decoder_layers=1)
    dwindle.attach(model, rule)
    return model


def out(model):
    return model(**source(), decoder_input_ids=target(), use_cache=False).logits


@pytest.mark.parametrize("rule", RULES)
def test_forward_and_backward(rule):
    model = attached(rule).double()
    right = out(model)
    right.square().mean().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    compiled = out(torch.compile(model, backend="aot_eager", fullgraph=True))
    torch.testing.assert_close(compiled, right)
    compiled.square().mean().backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, gradients[name], rtol=1e-7, atol=1e-9, msg=name)


@pytest.mark.parametrize("rule", [RULE, "training-free"])
def test_export(rule):
    """The graph is made with fake tensors, so polynomials that are fitted then need real ones."""
    polynomial.terms.cache_clear()
    model = attached(rule)
    inputs = {**source(), "decoder_input_ids": target(), "use_cache": False}
    with torch.no_grad():
        exported = torch.export.export(model, (), inputs, strict=False).module()
        torch.testing.assert_close(exported(**inputs).logits, out(model))
    assert all(type(number) is float for number in polynomial.terms(0.5))


@pytest.mark.parametrize("beams", BEAMS)
@pytest.mark.parametrize("rule", RULES)
def test_generate_with_a_static_cache(rule, beams):
    model = attached(rule)
    right = generated(model, source(), num_beams=beams, use_cache=False)
    counter = CompileCounterWithBackend("aot_eager")
    model.forward = torch.compile(model.forward, backend=counter, fullgraph=True)
    assert same(generated(model, source(), num_beams=beams, cache_implementation="static"), right)
    graphs = counter.frame_count
    assert graphs <= 4, "compiled again at every step"
    assert same(generated(model, source(), num_beams=beams, cache_implementation="static"), right)
    assert counter.frame_count == graphs, "compiled again for the second text"


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_inductor(rule):
    model = attached(rule)
    with torch.no_grad():
        right = out(model)
        torch.testing.assert_close(
            out(torch.compile(model, fullgraph=True)), right, rtol=0, atol=1e-3
        )
    expected = generated(model, source(), use_cache=False)
    model.forward = torch.compile(model.forward)
    assert same(generated(model, source(), cache_implementation="static"), expected, atol=1e-3)


@pytest.mark.parametrize("static", [True, False])
def test_a_cache_that_the_plain_model_filled(static):
    """The graph stops when it runs, where the uncompiled model says why."""
    model, given = bart(encoder_layers=1, decoder_layers=1), source()
    own = (
        StaticCache(model.config, max_cache_len=8) if static else DynamicCache(config=model.config)
    )
    cache = EncoderDecoderCache(own, DynamicCache(config=model.config))
    ids = target()
    with torch.no_grad():
        model(**given, decoder_input_ids=ids[:, :3], past_key_values=cache)
        dwindle.attach(model, RULE)
        compiled = torch.compile(model, backend="aot_eager")
        with pytest.raises(RuntimeError, match="coverage has not seen this cache"):
            compiled(**given, decoder_input_ids=ids[:, 3:4], past_key_values=cache)


def test_a_cache_of_a_prompt_that_the_plain_model_filled():
    model, (ids, mask) = made("Llama", torch.float32, num_hidden_layers=1), batch()
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(ids[:, :8], past_key_values=cache)
        dwindle.attach(model, RULE, source="prompt")
        compiled = torch.compile(model, backend="aot_eager")
        with (
            dwindle.source_span(model, mask),
            pytest.raises(RuntimeError, match="coverage has not seen this cache"),
        ):
            compiled(ids[:, 8:9], past_key_values=cache)
