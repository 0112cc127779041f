"""One direction of an LSTM over padded rows as one operation: ``cpu/lstm.h`` goes through it
forwards and backwards.

A step on padding leaves the state as it is, so the state after the last step is that after the last
word. Products over all steps are computed here, once each. It knows no model.

Shapes: B rows, S steps, I input size, H hidden size.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dwindle.native.functions import KERNEL


def lstm(
    x: Tensor, mask: Tensor, inward: Tensor, onward: Tensor, backwards: bool
) -> tuple[Tensor, Tensor]:
    """All hidden states (B, S, H) and the last cell (B, H), from inputs (B, S, I) and where they
    are (B, S).

    ``inward`` (4H, I) and ``onward`` (4H, H) are the weights from input and state to the gates, in
    PyTorch's order. All are of one dtype that ``KERNEL`` does; there is no bias. ``backwards``:
    from the last step to the first.
    """
    states, cell = _Lstm.apply(x, mask, inward, onward, backwards)  # type: ignore[no-untyped-call]
    return states, cell


class _Lstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, mask: Tensor, inward: Tensor, onward: Tensor, backwards: bool
    ) -> tuple[Tensor, Tensor]:
        mask, onward = mask.contiguous(), onward.contiguous()
        gates = x @ inward.mT
        b, s, hidden = *x.shape[:2], onward.shape[1]
        states, cells = (gates.new_empty(b, s, hidden) for _ in range(2))
        ctx.sizes = b, s, hidden, int(backwards)
        KERNEL("lstm", x.dtype, ctx.sizes, (onward, mask, gates, states, cells))
        ctx.save_for_backward(x, mask, inward, onward, gates, states, cells)
        return states, cells[:, 0 if backwards else -1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dstates: Tensor, dlast: Tensor) -> tuple[Tensor | None, ...]:
        x, mask, inward, onward, opened, states, cells = ctx.saved_tensors
        back = torch.empty_like(opened)
        given = onward, mask, opened, cells, dstates.contiguous(), dlast.contiguous(), back
        KERNEL("lstm_backward", x.dtype, ctx.sizes, given)
        before = torch.zeros_like(states)
        backwards = ctx.sizes[-1]
        if backwards:
            before[:, :-1] = states[:, 1:]
        else:
            before[:, 1:] = states[:, :-1]
        rows = back.flatten(0, 1).mT
        return back @ inward, None, rows @ x.flatten(0, 1), rows @ before.flatten(0, 1), None
