"""The decoder's loop as one operation against the loop over words, which autograd goes through step
by step."""

import pytest
import torch

from dwindle.models.pointer_generator.config import PointerGeneratorConfig
from dwindle.models.pointer_generator.decoder import Decoder
from dwindle.models.pointer_generator.encoder import EncodedSource
from dwindle.models.pointer_generator.loop import loops
from dwindle.native.functions import KERNEL

B, T, S, H, E = 5, 4, 37, 21, 18  # nothing is a multiple of a vector
KINDS = {
    "plain": {},
    "covered": {"coverage": True},
    "dim": {"rule": "dim:log"},
    "special": {"rule": "dim:power(0.65)+protect(special)", "coverage": True},
    "dydim": {"rule": "dydim:log,power(0.5)"},
    "bounded": {"rule": "dydim:boxcox(-4),boxcox(-0.5)", "coverage": True},
    "detached": {"rule": "dydim:boxcox(0.5),log+detach_gate", "coverage": True},
}


@pytest.fixture(autouse=True)
def compiled():
    if not KERNEL.do(torch.empty(0)):
        pytest.skip("there is no compiler")


def drawn(dtype, **settings):
    """A decoder, and encoded source, words, coverage so far and the last context, all with
    gradients; the mask."""
    torch.manual_seed(1)
    decoder = Decoder(PointerGeneratorConfig(hidden_size=H, embedding_size=E, **settings)).to(dtype)
    shapes = [(B, S, 2 * H), (B, S, 2 * H), (B, H), (B, H), (B, T, E), (B, 1, S), (B, 1, S), (B, E)]
    given = [torch.randn(shape, dtype=dtype) for shape in shapes]
    # some positions will have their peak in these steps
    given[5], given[6] = given[5].abs(), given[6].sigmoid() / 4
    mask = torch.arange(S) < torch.tensor([S, S - 1, 17, 3, 1])[:, None]
    return decoder, [x.requires_grad_() for x in given], mask


def outputs(decoder, given, mask):
    states, keys, hidden, cell, words, total, peak, context = given
    state = decoder.start(EncodedSource(states, keys, hidden, cell), mask)
    state.coverage, state.context = type(state.coverage)(total, peak), context
    rows, after = decoder(words, states, state)
    assert after.words == T
    there = rows.log_attention.masked_fill(~mask.unsqueeze(1), 0)
    return [
        rows.fed,
        rows.hidden,
        rows.cell,
        rows.context,
        there,
        rows.weights,
        after.context,
        *after.coverage,
    ]


def gradients(made, inputs):
    generator = torch.Generator().manual_seed(7)
    total = sum((x * torch.randn(x.shape, generator=generator, dtype=x.dtype)).sum() for x in made)
    return torch.autograd.grad(total, inputs, allow_unused=True)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_loop_is_that_of_the_twin(settings, dtype, threads, monkeypatch):
    decoder, given, mask = drawn(dtype, **settings)
    inputs = [*given, *decoder.parameters()]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        ours = outputs(decoder, given, mask)
        mine = gradients(ours, inputs)
    finally:
        torch.set_num_threads(before)
    monkeypatch.setattr(KERNEL, "do", lambda _: False)
    theirs = outputs(decoder, given, mask)
    near = {"rtol": 1e-3, "atol": 1e-4} if dtype == torch.float32 else {}
    torch.testing.assert_close(ours, theirs, **near)
    for fast, slow in zip(mine, gradients(theirs, inputs), strict=True):
        torch.testing.assert_close(fast, slow, **near)


@pytest.mark.parametrize("rule", ["dim:log+renormalise", "dim:log+protect(0)"])
def test_options_are_left_to_the_loop_over_words(rule):
    decoder, given, mask = drawn(torch.float32, rule=rule)
    state = decoder.start(EncodedSource(*given[:4]), mask)
    assert not loops(given[4], state, decoder.rule, decoder.gates, decoder.query)


def test_beams_share_a_source_in_the_loop_over_words():
    decoder, given, mask = drawn(torch.float32)
    state = decoder.start(EncodedSource(*given[:4]), mask, beams=2)
    words = given[4].repeat_interleave(2, dim=0)
    assert not loops(words, state, decoder.rule, decoder.gates, decoder.query)
