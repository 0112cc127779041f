"""A block of rows of attention through a rule of Box-Cox functions, with the gradient written out.

The twin in PyTorch of what the C++ kernel does in registers (cpu/rule.h): coverage runs along the rows, and
the gradient of every row is that of its own weight plus what later weights lost by its coverage. Knows
neither queries nor keys.
"""

from typing import Any

import torch
from torch import Tensor


class Diminish(torch.autograd.Function):
    """Attention (..., T, S), coverage before (..., S) twice, ``Call.numbers``: weights and coverage after."""

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, total: Tensor, peak: Tensor, numbers: list[float]
    ) -> tuple[Tensor, Tensor, Tensor]:
        mode, s1, p1, s2, p2, _ = numbers
        covered = _running(torch.add, total, a)
        peaks = _running(torch.maximum, peak, a) if mode == 2 else None
        top = torch.maximum(peak, a.amax(-2)) if peaks is None else peaks[..., -1, :].clone()
        before = covered[..., :-1, :]
        weights = a
        if mode:
            ratio = torch.log1p(a / (before + 1))
            weights = _gain(before, ratio, s1, p1)[0]
            if peaks is not None:
                weights = torch.lerp(_gain(before, ratio, s2, p2)[0], weights, peaks[..., :-1, :])
        ctx.numbers = numbers
        ctx.save_for_backward(a, covered, peaks, peak)
        ctx.set_materialize_grads(False)
        return weights if mode else a.clone(), covered[..., -1, :].clone(), top

    @staticmethod
    def backward(ctx: Any, d: Tensor | None, dtotal: Tensor | None, dpeak: Tensor | None) -> tuple[Tensor | None, ...]:
        a, covered, peaks, peak = ctx.saved_tensors
        mode, s1, p1, s2, p2, detach_gate = ctx.numbers
        d = torch.zeros_like(a) if d is None else d
        da = d
        flow = lost = None
        if mode:
            before, after = covered[..., :-1, :], covered[..., 1:, :] + 1
            ratio = torch.log1p(a / (before + 1))
            gain, slope, change = _slopes(before, ratio, after, a, s1, p1)
            if mode == 2:
                gate = peaks[..., :-1, :]
                gain2, slope2, change2 = _slopes(before, ratio, after, a, s2, p2)
                flow = None if detach_gate else gain.sub_(gain2).mul_(d)
                slope, change = torch.lerp(slope2, slope, gate), torch.lerp(change2, change, gate)
            da = slope.mul_(d)
            lost = change.mul_(d)
            da = da + _later(lost)
        if dtotal is not None:
            da = da + dtotal.unsqueeze(-2)
        if lost is not None:
            dtotal = lost.sum(-2) if dtotal is None else lost.sum(-2) + dtotal
        if flow is not None or dpeak is not None:
            da, dpeak = _through_peak(a, peak, da, flow, dpeak)
        return da, dtotal, dpeak, None


def _running(add: Any, start: Tensor, a: Tensor) -> Tensor:
    """(..., T + 1, S): the start, then what each row makes of it. By rows: cumsum and cummax are slower."""
    rows = a.new_empty(*a.shape[:-2], a.shape[-2] + 1, a.shape[-1])
    rows[..., 0, :] = start
    for t in range(a.shape[-2]):
        add(rows[..., t, :], a[..., t, :], out=rows[..., t + 1, :])
    return rows


def _later(x: Tensor) -> Tensor:
    """The sum over later rows, as a product with a triangle of ones: faster than a sum along T."""
    t = x.shape[-2]
    return torch.ones(t, t, dtype=x.dtype, device=x.device).triu_(1) @ x


def _gain(before: Tensor, ratio: Tensor, s: float, p: float) -> tuple[Tensor, Tensor]:
    """g(c + a) - g(c), and (1 + c)^p: from c and ratio = ln(1 + a / (1 + c))."""
    if p == 0:
        return ratio * s, ratio
    raised = torch.sqrt(before + 1) if p == 0.5 else torch.exp_(torch.log1p(before).mul_(p))
    return torch.expm1(ratio * p).mul_(raised).mul_(s / p), raised


def _slopes(
    before: Tensor, ratio: Tensor, after: Tensor, a: Tensor, s: float, p: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gain, g'(c + a), and g'(c + a) - g'(c) without that difference (cpu/rule.h); ``after`` is 1 + c + a."""
    gain, raised = _gain(before, ratio, s, p)
    if p == 0:
        slope = s / after
        return gain, slope, -(slope * a).div_(before + 1)
    slope = (raised * s).add_(gain, alpha=p).div_(after)
    change = (a * raised).div_(before + 1).mul_(-s).add_(gain, alpha=p).div_(after)
    return gain, slope, change


def _through_peak(
    a: Tensor, peak: Tensor, da: Tensor, flow: Tensor | None, dpeak: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The gradient of the gate goes to the row that set the peak, the latest of equals."""
    peaks = _running(torch.maximum, peak, a)
    records = a >= peaks[..., :-1, :]
    opened = torch.zeros_like(peak) if dpeak is None else dpeak.clone()
    da = da.clone()
    for t in reversed(range(a.shape[-2])):
        handed = opened * records[..., t, :]
        da[..., t, :] += handed
        opened -= handed
        if flow is not None:
            opened += flow[..., t, :]
    return da, opened
