"""The repeated work of recurrent models: linear layers in a loop, the cell of an LSTM, and one
direction of an LSTM over padded rows.

Autograd alone would compute the gradient of a layer's weights at every step and add them up.
``Repeated`` keeps what came in and what came back, both small, and makes one product of all steps.
``lstm`` is one operation, forwards and backwards in ``native/lstm.h``. A step on padding leaves the
state as it is, so the state after the last step is that after the last word. This file knows no
model.

Shapes: N or B rows, S steps, H hidden size, I and O what goes into a layer and comes out.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dwindle.native.functions import KERNEL


class Repeated:
    """A linear layer, weight (O, I), bias (O,) or none, that is called at every step of a loop."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias = weight, bias
        self._rows = _Rows()
        wanted = torch.is_grad_enabled() and any(
            x is not None and x.requires_grad for x in (weight, bias)
        )
        self._end = _End.apply(self._rows, weight, bias) if wanted else None  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor) -> Tensor:
        """(N, I) -> (N, O)."""
        if self._end is None or torch.is_autocast_enabled(x.device.type):
            return F.linear(x, self.weight, self.bias)
        bias = None if self.bias is None else self.bias.detach()
        out: Tensor = _Step.apply(self._rows, self._end, x, self.weight.detach(), bias)  # type: ignore[no-untyped-call]
        return out


class _Rows:
    """Inputs (N, I) and gradients (N, O) of the steps of one backward pass."""

    def __init__(self) -> None:
        self._pass = -1
        self._pairs: list[tuple[Tensor, Tensor]] = []

    def of_this_pass(self) -> list[tuple[Tensor, Tensor]]:
        """The pairs of this backward pass; those of an earlier pass that did not finish are
        dropped."""
        current = torch._C._current_graph_task_id()
        if current != self._pass:
            self._pass, self._pairs = current, []
        return self._pairs

    def taken(self) -> tuple[Tensor, Tensor] | None:
        """All inputs and gradients as two matrices, then forgotten."""
        pairs = self.of_this_pass()
        self._pairs = []
        return tuple(torch.cat(x) for x in zip(*pairs, strict=True)) if pairs else None  # type: ignore[return-value]


class _End(torch.autograd.Function):
    """A node that comes after all steps in the backward pass: each step depends on it."""

    @staticmethod
    def forward(ctx: Any, rows: _Rows, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.rows, ctx.biased = rows, bias is not None
        return weight.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:
        taken = ctx.rows.taken()
        if taken is None:
            return None, None, None
        x, back = taken
        return None, back.mT @ x, back.sum(0) if ctx.biased else None


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: _Rows, end: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        ctx.rows = rows
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, back: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        ctx.rows.of_this_pass().append((x, back))
        return None, None, back @ weight, None, None


def lstm_cell(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden and cell state (N, H) from gates (N, 4H): input, forget, candidate, output."""
    hidden, after = _Cell.apply(gates, cell)  # type: ignore[no-untyped-call]
    return hidden, after


class _Cell(torch.autograd.Function):
    """The cell as one node of the graph in place of a dozen."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        enter, keep, new, leave = opened = [
            x.tanh() if n == 2 else x.sigmoid() for n, x in enumerate(gates.chunk(4, -1))
        ]
        after = torch.addcmul(keep * cell, enter, new)
        shown = after.tanh()
        ctx.save_for_backward(*opened, cell, shown)
        return leave * shown, after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, hidden: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        enter, keep, new, leave, cell, shown = ctx.saved_tensors
        through = torch.addcmul(after, hidden * leave, 1 - shown * shown)
        parts = (
            through * new * enter * (1 - enter),
            through * cell * keep * (1 - keep),
            through * enter * (1 - new * new),
            hidden * shown * leave * (1 - leave),
        )
        return torch.cat(parts, -1), through * keep


def lstm(
    x: Tensor, mask: Tensor, inward: Tensor, onward: Tensor, backwards: bool
) -> tuple[Tensor, Tensor]:
    """All hidden states (B, S, H) and the last cell (B, H), from inputs (B, S, I) and their mask
    (B, S).

    ``inward`` (4H, I) and ``onward`` (4H, H) are the weights from input and state to the gates, in
    PyTorch's order. All have one dtype, which ``KERNEL`` must support; there is no bias.
    ``backwards``: from the last step to the first.
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
