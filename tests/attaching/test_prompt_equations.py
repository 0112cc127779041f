"""A rule in the prompt: weights are those of the equations, and so are their gradients."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

import dwindle
from dwindle.core import reference
from dwindle.core.concave import Log
from tests.attaching.prompts import EAGER, RULE, TOKENS, batch, close, made
from tests.attaching.small import forget_activations


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


def looped(
    attention: Tensor, source: Tensor, real: Tensor, weight: Callable[..., Tensor]
) -> Tensor:
    """The same as loops over one (T, T) attention: what is after the source, is diminished on the
    source."""
    weights = attention.clone()
    last = max(i for i, marked in enumerate(source) if marked)
    rows = [t for t in range(len(attention)) if t > last and real[t]]
    columns = [i for i, marked in enumerate(source) if marked]
    diminished = reference.rows(weight, attention[rows][:, columns])
    for t, row in zip(rows, diminished, strict=True):
        for i, w in zip(columns, row, strict=True):
            weights[t, i] = w
    return weights


@pytest.mark.parametrize(
    ("rule", "weight"),
    [
        ("dim:log", partial(reference.dim, Log())),
        ("dydim:log,log(3)", partial(reference.dydim, Log(), Log(3.0))),
    ],
)
def test_weights_are_those_of_the_loops(rule: str, weight: Callable[..., Tensor]) -> None:
    model, (ids, mask) = made("Llama", num_hidden_layers=1, attn_implementation="eager"), batch(3)
    real = torch.ones_like(ids)
    real[1, 12:] = 0  # right padding, as in training
    plain = model(ids, attention_mask=real, output_attentions=True).attentions[0]
    dwindle.attach(model, rule, source="prompt")
    with dwindle.source_span(model, mask):
        weights = model(ids, attention_mask=real, output_attentions=True).attentions[0]
    for b in range(3):
        for h in range(4):
            t = slice(None, int(real[b].sum()))
            close(weights[b, h, t], looped(plain[b, h], mask[b], real[b], weight)[t], EAGER)


def test_renormalised_rows_keep_the_mass_on_the_source() -> None:
    model, (ids, mask) = made("Qwen2", num_hidden_layers=1, attn_implementation="eager"), batch()
    plain = model(ids, output_attentions=True).attentions[0]
    dwindle.attach(model, "dim:log+renormalise+share_heads", source="prompt")
    with dwindle.source_span(model, mask):
        weights = model(ids, output_attentions=True).attentions[0]
    assert not torch.allclose(weights, plain)
    close(weights.sum(-1), plain.sum(-1), EAGER)
    here = mask[:, None, None, :]
    close((weights * here).sum(-1), (plain * here).sum(-1), EAGER)
    close(weights * ~here, plain * ~here, EAGER)


def test_training_starts_where_the_source_of_each_example_ends() -> None:
    """A padded batch gives every example the logits and leaves the coverage it has alone: padding
    adds nothing."""
    model, (ids, mask) = made("Llama"), batch(3)
    dwindle.attach(model, RULE, source="prompt")
    lengths = [14, 11, 12]
    real = (torch.arange(TOKENS) < torch.tensor(lengths)[:, None]).long()
    with dwindle.source_span(model, mask):
        together = model(ids, attention_mask=real, use_cache=False).logits
        cached = model(ids, attention_mask=real, use_cache=True)
    for i, n in enumerate(lengths):
        with dwindle.source_span(model, mask[i : i + 1]):
            alone = model(ids[i : i + 1, :n], use_cache=True)
        close(together[i, :n], alone.logits[0])
        close(cached.logits[i, :n], alone.logits[0])
        for layer, own in zip(
            cached.past_key_values.layers, alone.past_key_values.layers, strict=True
        ):
            width = own.source.shape[1]
            close(layer.coverage.total[i, :, :width], own.coverage.total[0])


def gradients(model: Any, ids: Tensor, masks: list[Tensor]) -> list[Tensor]:
    """Of a loss over two passes with spans of their own, taken after both spans are closed."""
    model.zero_grad()
    with torch.enable_grad():
        losses = []
        for mask in masks:
            with dwindle.source_span(model, mask):
                losses.append(model(ids, labels=ids, use_cache=False).loss)
        sum(losses).backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("family", ["Llama", "Gemma2", "GPT2"])
@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing(family: str, reentrant: bool) -> None:
    quiet = {"resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0} if family == "GPT2" else {}
    model, (ids, mask) = made(family, **quiet).train(), batch()
    dwindle.attach(model, RULE, source="prompt")
    masks = [mask, mask.roll(2, dims=1)]
    wanted = gradients(model, ids, masks)
    forget_activations(model, reentrant)
    model.enable_input_require_grads()
    for found, expected in zip(gradients(model, ids, masks), wanted, strict=True):
        close(found, expected)


def test_the_gradient_is_that_of_differences() -> None:
    model, (ids, mask) = made("GPT2"), batch()
    dwindle.attach(model, "dim:log+renormalise", source="prompt", layers=1)
    weight = model.transformer.h[2].attn.c_attn.weight

    def loss() -> Tensor:
        with dwindle.source_span(model, mask):
            # the library's loss is float32
            return model(ids, use_cache=False).logits.log_softmax(-1)[..., 7].mean()

    with torch.enable_grad():
        slope = torch.autograd.grad(loss(), weight)[0][2, 3]
    values = []
    for step in (1e-5, -2e-5):
        weight[2, 3] += step
        values.append(loss())
    assert float((values[0] - values[1]) / 2e-5) == pytest.approx(float(slope), rel=1e-4)


@pytest.mark.parametrize(
    "rule", [RULE, "dim:log+renormalise+share_heads", "dim:log+protect(0,-1)", "training-free"]
)
@pytest.mark.parametrize("pieces", [[TOKENS], [3, 4, 1, 6]])
def test_fused_is_what_is_held_in_memory(rule: str, pieces: list[int]) -> None:
    """The slow twin returns its weights: logits, coverage and gradients of a padded batch are the
    same."""
    ids, mask = batch(3)
    real = torch.ones_like(ids)
    real[1, :1] = 0
    found = []
    for implementation in ("sdpa", "eager"):
        model = made("Llama", attn_implementation=implementation, num_hidden_layers=2)
        dwindle.attach(model, rule, source="prompt")
        cache = DynamicCache(config=model.config)
        with dwindle.source_span(model, mask), torch.enable_grad():
            logits, seen = [], 0
            for part in ids.split(pieces, dim=1):
                seen += part.shape[1]
                given = {
                    "attention_mask": real[:, :seen],
                    "past_key_values": cache,
                    "use_cache": True,
                }
                logits.append(model(part, **given).logits)
            together = torch.cat(logits, dim=1)[:, 1:]  # the first token of one of them is padding
            gradients = torch.autograd.grad(together.square().mean(), list(model.parameters()))
        coverage = [x for layer in cache.layers for x in layer.coverage]
        found.append([together, *coverage, *gradients])
    for fused, held in zip(*found, strict=True):
        close(fused, held, EAGER)
