"""A block of rows of attention through a rule of Box-Cox functions, with the gradient written out.

The twin in PyTorch of what the C++ kernel does in registers (cpu/rule.h): coverage runs along the rows, and
the gradient of every row is that of its own weight plus what later weights lost by its coverage. Knows
neither queries nor keys.
"""

from typing import Any

import torch
from torch import Tensor

from dwindle.attention.backends.polynomial import terms


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
        weights, saved = a, []
        if mode:
            u = covered[..., :-1, :] + 1
            x = a / u
            saved = [x, *_gain(x, u, s1, p1)]
            weights = saved[1]
            if peaks is not None:
                saved += _gain(x, u, s2, p2)
                weights = torch.lerp(saved[3], saved[1], peaks[..., :-1, :])
        ctx.numbers = numbers
        ctx.save_for_backward(a, covered, peaks, peak, *saved)
        ctx.set_materialize_grads(False)
        return weights.clone() if mode < 2 else weights, covered[..., -1, :].clone(), top

    @staticmethod
    def backward(
        ctx: Any, d: Tensor | None, dtotal: Tensor | None, dpeak: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        a, covered, peaks, peak, *saved = ctx.saved_tensors
        mode, s1, p1, s2, p2, detach_gate = ctx.numbers
        da = d = torch.zeros_like(a) if d is None else d
        flow = lost = None
        if mode:
            x, *gains = saved
            after = covered[..., 1:, :] + 1
            slope, change = _slopes(x, gains[0], gains[1], after, s1, p1)
            if mode == 2:
                gate = peaks[..., :-1, :]
                slope2, change2 = _slopes(x, gains[2], gains[3], after, s2, p2)
                flow = None if detach_gate else (gains[0] - gains[2]).mul_(d)
                slope, change = torch.lerp(slope2, slope, gate), torch.lerp(change2, change, gate)
            lost = change.mul_(d)
            da = slope.mul_(d).add_(_later(lost))
        if dtotal is not None:
            da = da + dtotal.unsqueeze(-2)
        if lost is not None:
            dtotal = lost.sum(-2) if dtotal is None else lost.sum(-2) + dtotal
        if flow is not None or dpeak is not None:
            peaks = _running(torch.maximum, peak, a) if peaks is None else peaks
            da, dpeak = _through_peak(a >= peaks[..., :-1, :], peak, da, flow, dpeak)
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


def _gain(x: Tensor, u: Tensor, s: float, p: float) -> tuple[Tensor, Tensor]:
    """g(c + a) - g(c), and (1 + c)^p, from u = 1 + c and x = a / u."""
    if x.dtype == torch.float32:  # faster than log1p and expm1, and as exact
        *lower, highest = terms(p)
        e = torch.full_like(x, highest)
        for term in reversed(lower):
            e.mul_(x).add_(term)
        e.mul_(x)
    else:
        e = torch.log1p(x) if p == 0 else torch.expm1(p * torch.log1p(x))
    if p == 0:
        return e.mul_(s), u
    raised = torch.sqrt(u) if p == 0.5 else torch.log(u).mul_(p).exp_()
    return e.mul_(raised).mul_(s / p), raised


def _slopes(
    x: Tensor, gain: Tensor, raised: Tensor, after: Tensor, s: float, p: float
) -> tuple[Tensor, Tensor]:
    """g'(c + a), and g'(c + a) - g'(c) without that difference (cpu/rule.h); ``after`` is 1 + c + a."""
    if p == 0:
        slope = s / after
        return slope, (slope * x).neg_()
    slope = (raised * s).add_(gain, alpha=p).div_(after)
    return slope, (x * raised).mul_(-s).add_(gain, alpha=p).div_(after)


def _through_peak(
    records: Tensor, peak: Tensor, da: Tensor, flow: Tensor | None, dpeak: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The gradient of the gate goes to the row that set the peak (``records``), the latest of equals."""
    opened = torch.zeros_like(peak) if dpeak is None else dpeak.clone()
    da = da.clone()
    for t in reversed(range(da.shape[-2])):
        handed = opened * records[..., t, :]
        da[..., t, :] += handed
        opened -= handed
        if flow is not None:
            opened += flow[..., t, :]
    return da, opened
