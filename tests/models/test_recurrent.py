"""Layers and cells of a loop against what autograd makes of them."""

import torch
from torch.nn import functional as F

from dwindle.models.recurrent import Repeated, lstm_cell

N, H, T = 3, 4, 5


def drawn():
    """Weight (4H, 2H) and bias of the gates, a first state, and what is read at each step."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(4 * H, 2 * H), (4 * H,), (N, H), (N, H), *[(N, H)] * T]
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in shapes
    ]


def slow_cell(gates, cell):
    enter, keep, new, leave = gates.chunk(4, -1)
    cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * cell.tanh(), cell


def states(layer, cell_of, given):
    _, _, hidden, cell, *read = given
    rows = []
    for word in read:
        hidden, cell = cell_of(layer(torch.cat([word, hidden], -1)), cell)
        rows += [hidden, cell]
    return torch.stack(rows)


def test_a_loop_is_that_of_the_twin():
    given = drawn()
    weight, bias = given[:2]
    ours = states(Repeated(weight, bias), lstm_cell, given)
    theirs = states(lambda x: F.linear(x, weight, bias), slow_cell, given)
    torch.testing.assert_close(ours, theirs)
    scale = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1), dtype=ours.dtype)
    for mine, slow in zip(
        *(torch.autograd.grad((x * scale).sum(), given) for x in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(mine, slow)


def test_a_layer_without_a_bias():
    weight, x = drawn()[0], torch.ones(2, 2 * H, dtype=torch.float64)
    layer = Repeated(weight)
    (layer(x) + layer(2 * x)).sum().backward()
    torch.testing.assert_close(weight.grad, torch.full_like(weight, 6.0))


def test_a_backward_pass_may_be_repeated_or_take_a_part():
    given = drawn()
    loss = states(Repeated(*given[:2]), lstm_cell, given).square().sum()
    first = torch.autograd.grad(loss, given, retain_graph=True)
    torch.autograd.grad(loss, given[2], retain_graph=True)
    torch.testing.assert_close(first, torch.autograd.grad(loss, given), rtol=0, atol=0)
