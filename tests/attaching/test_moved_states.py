"""Encoder outputs that a caller reorders, repeats, selects or overwrites: special tokens follow
their sources."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput

import dwindle
from tests.attaching.small import END, PAD, bart, generated, same, target, words

RULE = "dim:log+protect(special)"
# One length, special tokens in other places: nothing but these tells the sources apart.
IDS = torch.tensor(
    [[*words(3, 1), END, *words(3, 2), END], [END, *words(5, 3), END, END], [*words(7, 4), END]]
)
MOVES = {
    "swapped": [2, 0, 1],
    "one twice": [1, 1, 0],
    "fewer": [2, 0],
    "one": [1],
    "twice": [0, 1, 2, 0, 1, 2],
}


@pytest.fixture(scope="module")
def model():
    model = bart()
    dwindle.attach(model, RULE)
    return model


def given(order: list[int]) -> dict[str, Tensor]:
    ids = IDS[order]
    return {"input_ids": ids, "attention_mask": (ids != PAD).long()}


def encoded(model) -> Any:
    with torch.no_grad():
        return model.get_encoder()(**given([0, 1, 2]), return_dict=True)


def logits(model, order: list[int], **how: Any) -> Tensor:
    mask = given(order)["attention_mask"]
    rows = target(batch=3)[torch.tensor(order) % 3] if len(order) <= 3 else target(batch=len(order))
    with torch.no_grad():
        return model(decoder_input_ids=rows, attention_mask=mask, use_cache=False, **how).logits


@pytest.mark.parametrize("move", MOVES)
def test_states_put_back_into_the_output(model, move):
    order = MOVES[move]
    output = encoded(model)
    output["last_hidden_state"] = output.last_hidden_state[order]
    right = logits(model, order, input_ids=IDS[order])
    torch.testing.assert_close(logits(model, order, encoder_outputs=output), right)
    dwindle.attach(model, "dim:log+protect(0)")  # the test would see other positions protected
    assert not torch.allclose(right, logits(model, order, input_ids=IDS[order]))
    dwindle.attach(model, RULE)


def test_everything_in_the_output_moved_alike(model):
    output, order = encoded(model), [2, 0, 1]
    for name in output:
        output[name] = output[name][order]
    torch.testing.assert_close(
        logits(model, order, encoder_outputs=output), logits(model, order, input_ids=IDS[order])
    )


def test_states_repeated_as_a_block(model):
    """Not as beams are: all sources, then all again."""
    output, order = encoded(model), [0, 1, 2, 0, 1, 2]
    output["last_hidden_state"] = output.last_hidden_state.repeat(2, 1, 1)
    right = generated(model, given(order), num_beams=2)
    found = generated(
        model,
        {"encoder_outputs": output, "attention_mask": given(order)["attention_mask"]},
        num_beams=2,
    )
    assert same(found, right)


def test_a_view_of_the_states(model):
    states = encoded(model).last_hidden_state
    for order, part in (([1, 2], states[1:]), ([0, 2], states[::2])):
        right = logits(model, order, input_ids=IDS[order])
        torch.testing.assert_close(
            logits(model, order, encoder_outputs=BaseModelOutput(part)), right
        )


@pytest.mark.parametrize("change", ["scaled", "another", "shorter"])
def test_states_of_unknown_origin_are_refused(model, change):
    output = encoded(model)
    if change == "scaled":
        output.last_hidden_state.mul_(2)
    elif change == "another":
        output["last_hidden_state"] = torch.randn_like(output.last_hidden_state)
    else:
        output["last_hidden_state"] = output.last_hidden_state[:, :-1].clone()
    rows = {"decoder_input_ids": target(batch=3), "use_cache": False}
    for outputs in (output, BaseModelOutput(output.last_hidden_state)):
        with torch.no_grad(), pytest.raises(ValueError, match="with the numbers that it gave"):
            model(encoder_outputs=outputs, **rows)


def test_a_buffer_that_is_written_over(model):
    """The mark of the storage is that of what it held before."""
    states = encoded(model).last_hidden_state
    other = states[[1, 2, 0]].clone()
    states.copy_(other)
    order = [1, 2, 0]
    right = logits(model, order, input_ids=IDS[order])
    torch.testing.assert_close(logits(model, order, encoder_outputs=BaseModelOutput(states)), right)
    states.copy_(torch.randn_like(states))
    with pytest.raises(ValueError, match="with the numbers that it gave"):
        logits(model, order, encoder_outputs=BaseModelOutput(states))


@pytest.mark.slow
def test_compiled(model):
    """In a graph the states are followed as well, and what is unknown stops it when it runs."""
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    output, order = encoded(model), [2, 0, 1]
    output["last_hidden_state"] = output.last_hidden_state[order]
    right = logits(model, order, input_ids=IDS[order])
    torch.testing.assert_close(logits(compiled, order, encoder_outputs=output), right)
    output["last_hidden_state"] = output.last_hidden_state * 2
    with pytest.raises(RuntimeError, match="with the numbers that it gave"):
        logits(compiled, order, encoder_outputs=output)
    torch._dynamo.reset()
