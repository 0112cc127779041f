"""A tile of attention through a rule of Box-Cox functions, with the gradient written out.

The twin in PyTorch of what the C++ kernel does in registers (cpu/rule.h). Tiles lie with the target rows last,
(..., S, T): PyTorch's running sums and maxima are quick along memory only. Knows neither queries nor keys.

With c the coverage before a row of attention a, m = 1 + c + a / 2 and z = a / m, a weight is the gain
g(c + a) - g(c) = s m^p z Q(z^2) with a short polynomial Q (polynomial.py); the slopes need one more for the middle
of the powers at both ends. Nothing is a difference of two values of g or g'.
"""

from typing import Any

import torch
from torch import Tensor

from dwindle.attention.backends.polynomial import even_terms, odd_terms


class Diminish(torch.autograd.Function):
    """Attention (..., S, T), coverage before (..., S) twice, ``Call.numbers``: weights and coverage after."""

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, total: Tensor, peak: Tensor, numbers: list[float]
    ) -> tuple[Tensor, Tensor, Tensor]:
        mode, s1, p1, s2, p2, _ = numbers
        keep = ctx.needs_input_grad[0]
        m = a.cumsum(-1)
        after = total + m[..., -1]
        peaks = setters = None
        saved: list[Tensor] = []
        weights = a
        if mode:
            m.sub_(a, alpha=0.5).add_(1 + total.unsqueeze(-1))
            z = a / m
            y = z * z
            rate, raised = _rate(m, y, s1, p1)
            saved = [m, z, y, rate, raised]
        if mode == 2:
            peaks, setters = (peak.unsqueeze(-1), None) if a.shape[-1] == 1 else _peaks(a, peak)
            rate2, raised2 = _rate(m, y, s2, p2)
            saved += [rate2, raised2]
            weights = torch.lerp(rate2, rate, peaks[..., : a.shape[-1]], out=None if keep else rate2).mul_(z)
        elif mode == 1:
            weights = torch.mul(rate, z, out=None if keep else rate)
        top = torch.maximum(peak, a.amax(-1)) if peaks is None or setters is None else peaks[..., -1].clone()
        ctx.numbers = numbers
        ctx.save_for_backward(a, peak, peaks, setters, *saved)
        ctx.set_materialize_grads(False)
        return weights if mode else a.clone(), after, top

    @staticmethod
    def backward(ctx: Any, d: Tensor | None, dtotal: Tensor | None, dpeak: Tensor | None) -> tuple[Tensor | None, ...]:
        a, peak, peaks, setters, *saved = ctx.saved_tensors
        mode, s1, p1, s2, p2, detach_gate = ctx.numbers
        d = torch.zeros_like(a) if d is None else d
        da, flow = d, None
        if mode:
            m, z, y, rate, raised = saved[:5]
            dz = d * z
            t = torch.addcmul(m, a, z, value=-0.25)
            mean, change = _slopes(t, y, rate, raised, s1, p1)
            if mode == 2:
                rate2, raised2 = saved[5:]
                mean2, change2 = _slopes(t, y, rate2, raised2, s2, p2)
                gate = peaks[..., : a.shape[-1]]
                mean, change = torch.lerp(mean2, mean, gate), torch.lerp(change2, change, gate)
                flow = None if detach_gate else (rate - rate2).mul_(dz)
            da, lost = mean.mul_(d), change.mul_(dz)
            # A row adds to the coverage before each later row, and to half of the way through its own.
            before = lost.cumsum(-1)
            dtotal = before[..., -1] + (0 if dtotal is None else dtotal)
            da.add_(lost, alpha=0.5).sub_(before).add_(dtotal.unsqueeze(-1))
        elif dtotal is not None:
            da = d + dtotal.unsqueeze(-1)
        if flow is not None or dpeak is not None:
            setters = _peaks(a, peak)[1] if setters is None else setters
            by_setter = _by_setter(setters, flow, dpeak)
            da, dpeak = da + by_setter[..., 1:], by_setter[..., 0]
        return da, dtotal, dpeak, None


def _rate(m: Tensor, y: Tensor, s: float, p: float) -> tuple[Tensor, Tensor]:
    """(g(c + a) - g(c)) / z, and m^p."""
    rate = _polynomial(odd_terms(p, _terms(y)), y, s)
    if p == 0:
        return rate, m
    raised = torch.sqrt(m) if p == 0.5 else torch.log(m).mul_(p).exp_()
    return rate.mul_(raised), raised


def _slopes(t: Tensor, y: Tensor, rate: Tensor, raised: Tensor, s: float, p: float) -> tuple[Tensor, Tensor]:
    """(g'(c) + g'(c + a)) / 2 and (g'(c + a) - g'(c)) / z, from t = (1 + c) (1 + c + a) / m."""
    if p == 0:
        return s / t, -s / t
    middle = _polynomial(even_terms(p, _terms(y)), y, s / p).mul_(raised)  # of s / p (1 + x)^p
    shared = p / t
    return torch.addcmul(middle, rate, y, value=-0.25).mul_(shared), (rate - middle).mul_(shared)


def _polynomial(terms: tuple[float, ...], y: Tensor, scale: float) -> Tensor:
    """By Horner's rule, divided by the highest term until the end: one pass over the tile less than terms."""
    lowest, *middle, highest = (scale * term for term in terms)
    highest = highest or 1e-30  # p = 1 has no higher terms
    *constants, start = (term / highest for term in middle)
    last, *steps = y.new_tensor([lowest, *constants]).unbind()
    value = y + start
    for constant in reversed(steps):
        torch.addcmul(constant, value, y, out=value)
    return torch.addcmul(last, value, y, value=highest, out=value)


def _terms(y: Tensor) -> int:
    """So many are exact to the dtype."""
    return 4 if y.dtype == torch.float32 else 11


def _peaks(a: Tensor, peak: Tensor) -> tuple[Tensor, Tensor]:
    """(..., S, T + 1) twice: the peak before each row and after the last; who set it (0: earlier, t + 1: row t)."""
    peaks, setters = torch.cat([peak.unsqueeze(-1), a], -1).cummax(-1)
    return peaks, setters


def _by_setter(setters: Tensor, flow: Tensor | None, dpeak: Tensor | None) -> Tensor:
    """The gradient of each peak, ``flow`` before a row and ``dpeak`` after the last, summed where it was set."""
    some: Any = dpeak if flow is None else flow
    grads = torch.zeros(setters.shape, dtype=some.dtype, device=some.device)
    if flow is not None:
        grads.scatter_add_(-1, setters[..., :-1], flow)
    if dpeak is not None:
        grads.scatter_add_(-1, setters[..., -1:], dpeak.unsqueeze(-1))
    return grads
