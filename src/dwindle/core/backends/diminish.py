"""A tile of attention through a rule of Box-Cox functions, with the gradient written out.

The twin in PyTorch of what the C++ kernel does in registers (native/rule.h). Knows neither
queries nor keys.

With c the coverage before a row of attention a, m = 1 + c + a / 2 and z = a / m, a weight is the
gain g(c + a) - g(c) = s m^p z Q(z^2) with a short polynomial Q (polynomial.py); the slopes need one
more for the middle of the powers at both ends. Nothing is a difference of two values of g or g'.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from dwindle.core.backends.polynomial import even_terms, odd_terms
from dwindle.core.rules import least_mass
from dwindle.native.vocabulary import KernelNumbers


class Space:
    """Memory for tiles, handed out again: the tile that was given back last comes first, because it
    is still in a cache."""

    def __init__(self) -> None:
        self._all: dict[int, Tensor] = {}
        self._free: list[Tensor] = []

    def tile(self, like: Tensor, *shape: int) -> Tensor:
        """An empty tensor of ``shape``, or that of ``like``, in its dtype."""
        shape = shape or like.shape
        size = math.prod(shape)
        for i in reversed(range(len(self._free))):
            if self._free[i].dtype == like.dtype and self._free[i].numel() >= size:
                return self._free.pop(i)[:size].view(shape)
        flat = like.new_empty(size)
        self._all[flat.data_ptr()] = flat
        return flat.view(shape)

    def back(self, *tiles: Tensor) -> None:
        """Take back tiles that are no longer needed. Tensors from elsewhere are left alone."""
        self._free += [self._all[x.data_ptr()] for x in tiles if x.data_ptr() in self._all]

    def restart(self) -> None:
        """Take back all tiles."""
        self._free = list(self._all.values())


class Diminish(torch.autograd.Function):
    """Attention (..., T, S), coverage before (..., S) twice, a rule's numbers: weights and coverage
    after.

    Where the coverage has one head for all, it counts their mean, and each head is weighed at the
    common coverage.
    """

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, total: Tensor, peak: Tensor, numbers: KernelNumbers, space: Space
    ) -> tuple[Tensor, Tensor, Tensor]:
        mode, s1, p1, s2, p2, _ = numbers
        seen = a if total.shape[:-1] == a.shape[:-2] else a.mean(-3, keepdim=True)
        keep = ctx.needs_input_grad[0]
        saved: list[Tensor] = []
        if mode:
            m, after = _along(torch.add, total, seen, space, more=1)
            m = torch.add(m, a, alpha=0.5, out=m if seen is a else space.tile(a))
            z = torch.div(a, m, out=space.tile(a))
            y = torch.mul(z, z, out=space.tile(a))
            rate, raised = _rate(m, y, s1, p1, space, spent=mode == 1 and not keep)
            saved = [m, z, y, rate, raised]
        if mode == 2:
            rate2, raised2 = _rate(m, y, s2, p2, space, spent=not keep)
            if not keep:
                space.back(y, m)
            peaks, top = _along(torch.maximum, peak, seen, space)
            saved += [peaks, rate2, raised2]
            weights = torch.lerp(rate2, rate, peaks, out=space.tile(a) if keep else rate2).mul_(z)
        elif mode == 1:
            top = torch.maximum(peak, seen.amax(-2))
            weights = torch.mul(rate, z, out=space.tile(a) if keep else rate)
        else:
            after, top, weights = (
                total + seen.sum(-2),
                torch.maximum(peak, seen.amax(-2)),
                a.clone(),
            )
        if keep:
            ctx.save_for_backward(a, seen, peak, *saved)
        ctx.numbers, ctx.space = numbers, space
        ctx.set_materialize_grads(False)
        return weights, after, top

    @staticmethod
    def backward(
        ctx: Any, d: Tensor | None, dtotal: Tensor | None, dpeak: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        a, seen, peak, *saved = ctx.saved_tensors
        mode, s1, p1, s2, p2, detach_gate = ctx.numbers
        space, heads = ctx.space, 1 if seen.shape == a.shape else a.shape[-3]
        d = torch.zeros_like(a) if d is None else d
        da, flow, peaks = d, None, None
        if mode:
            m, z, y, rate, raised = saved[:5]
            mean, fall = _slopes(y, rate, raised, s1, p1, space)
            if mode == 2:
                peaks, rate2, raised2 = saved[5:]
                mean2, fall2 = _slopes(y, rate2, raised2, s2, p2, space)
                mixed = [
                    torch.lerp(x2, x1, peaks, out=space.tile(a))
                    for x1, x2 in ((mean, mean2), (fall, fall2))
                ]
                space.back(mean, mean2, fall, fall2)
                mean, fall = mixed
                flow = (
                    None
                    if detach_gate
                    else _together(torch.sub(rate, rate2, out=rate).mul_(z).mul_(d), heads)
                )
                space.back(rate2)
            share = torch.div(d, torch.addcmul(m, a, z, value=-0.25, out=m), out=m)
            da = torch.mul(mean, share, out=space.tile(a))
            lost = torch.mul(fall, share.mul_(z), out=share)
            space.back(mean, fall, z, y)
            # A row adds to the coverage before each later row, and to half of the way through its
            # own.
            start = None if dtotal is None else -dtotal
            later, dtotal = _along(torch.add, start, _together(lost, heads), space, backwards=True)
            dtotal = -dtotal
            da.sub_(lost, alpha=0.5).sub_(later, alpha=1 / heads)
            space.back(later, lost)
        elif dtotal is not None:
            da = d + dtotal.unsqueeze(-2) / heads
        if flow is not None or dpeak is not None:
            # The gradient of a peak runs backwards to the row that set it.
            peaks = _along(torch.maximum, peak, seen, space)[0] if peaks is None else peaks
            flow = torch.zeros_like(seen) if flow is None else flow
            passed = torch.lt(seen, peaks, out=peaks)
            opened, dpeak = _opened(dpeak, passed, flow, space)
            set_here = torch.sub(1, passed, out=passed)
            da = torch.addcmul(
                da, opened, set_here, value=1 / heads, out=opened if heads == 1 else space.tile(a)
            )
        return da, dtotal, dpeak, None, None


def _together(x: Tensor, heads: int) -> Tensor:
    """(..., H, T, S) summed over heads that share a coverage."""
    return x if heads == 1 else x.sum(-3, keepdim=True)


class FinishRows(torch.autograd.Function):
    """``RowRule.finish``, with its gradient written out: attention and weights (..., T, S) to the
    rule's weights.

    ``free`` (..., 1, S) is 1 where a position is not protected, 0 where it is. Products with it are
    cheap, choices by a bool mask are not.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, weights: Tensor, free: Tensor, renormalise: bool) -> Tensor:
        scale = have = None
        if renormalise:
            mass, have = a @ free.mT, weights @ free.mT
            scale = mass / have.masked_fill(have == 0, 1)
            # no gradient flows through those
            have = have.masked_fill(have < least_mass(have.dtype), math.inf)
        ctx.save_for_backward(weights, free, scale, have)
        return torch.lerp(a, weights if scale is None else weights * scale, free)

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, ...]:
        weights, free, scale, have = ctx.saved_tensors
        mine = d * free
        if scale is None:
            return d - mine, mine, None, None
        # of the scale, shared out
        drift = torch.linalg.vecdot(mine, weights).unsqueeze(-1).div_(have)
        shared = drift * free
        return d - mine + shared, mine.sub_(shared).mul_(scale), None, None


def _along(
    step: Callable[..., Tensor],
    start: Tensor | None,
    x: Tensor,
    space: Space,
    backwards: bool = False,
    more: int = 0,
) -> tuple[Tensor, Tensor]:
    """The running sum, or maximum of numbers not below 0, of rows (..., T, S): before each row, and
    after the last.

    The sums that come to the rows are ``more`` by that number. First in all groups of a few rows at
    once, then from group to group: PyTorch's own running sums and maxima are slow along any
    dimension but the last, and operations on one row are too small for several threads.
    """
    here = space.tile(x)
    order = slice(None, None, -1 if backwards else 1)
    end = torch.zeros_like(x[..., 0, :]) if start is None else start
    for groups, given in zip(_grouped(here)[order], _grouped(x)[order], strict=True):
        rows, now = groups.unbind(-2)[order], given.unbind(-2)[order]
        rows[0].zero_()
        for before, after, row in zip(rows, rows[1:], now, strict=False):
            step(before, row, out=after)
        ends = [end]
        for group in step(rows[-1], now[-1]).unbind(-2)[order]:
            ends.append(step(ends[-1], group))
        *came, end = ends
        arriving = torch.stack(came[order], -2).unsqueeze(-2)
        step(groups, arriving + more if more else arriving, out=groups)
    return here, end


def _opened(
    start: Tensor | None, passed: Tensor, flow: Tensor, space: Space
) -> tuple[Tensor, Tensor]:
    """The gradient of the peak after each row, and before the first: what came later if the row
    ``passed`` it on.

    In groups, as ``_along``, with the share of what comes after a group that gets to each of its
    rows.
    """
    here, through = space.tile(flow), space.tile(flow)
    end = torch.zeros_like(flow[..., 0, :]) if start is None else start
    for tiles in reversed(list(zip(*map(_grouped, (here, through, passed, flow)), strict=True))):
        rows, shares, passes, more = (x.unbind(-2)[::-1] for x in tiles)
        rows[0].zero_()
        shares[0].fill_(1)
        for i, (row, share) in enumerate(zip(rows[1:], shares[1:], strict=True)):
            torch.addcmul(more[i], rows[i], passes[i], out=row)
            torch.mul(shares[i], passes[i], out=share)
        ends = [end]
        alone, share = torch.addcmul(more[-1], rows[-1], passes[-1]), shares[-1] * passes[-1]
        for group in zip(alone.unbind(-2)[::-1], share.unbind(-2)[::-1], strict=True):
            ends.append(torch.addcmul(group[0], group[1], ends[-1]))
        *came, end = ends
        tiles[0].addcmul_(tiles[1], torch.stack(came[::-1], -2).unsqueeze(-2))
    return here, end


def _grouped(x: Tensor) -> list[Tensor]:
    """Rows (..., T, S) in groups (..., n, m, S), about as many as they have rows; then those left
    over, likewise."""
    parts, done, rows = [], 0, x.shape[-2]
    while done < rows:
        root = math.isqrt(rows - done)
        size = next((n for n in range(root, root // 2, -1) if (rows - done) % n == 0), root)
        count = (rows - done) // size
        part = x[..., done : done + count * size, :]
        parts.append(part.view(*x.shape[:-2], count, size, x.shape[-1]))
        done += count * size
    return parts


def _rate(
    m: Tensor, y: Tensor, s: float, p: float, space: Space, spent: bool
) -> tuple[Tensor, Tensor]:
    """(g(c + a) - g(c)) / z, and m^p, in the place of m if that is spent."""
    rate = _polynomial(odd_terms(p, y.dtype == torch.float32), y, s, space)
    if p == 0:
        return rate, m
    place = m if spent else space.tile(m)
    raised = torch.sqrt(m, out=place) if p == 0.5 else torch.log2(m, out=place).mul_(p).exp2_()
    return rate.mul_(raised), raised


def _slopes(
    y: Tensor, rate: Tensor, raised: Tensor, s: float, p: float, space: Space
) -> tuple[Tensor, Tensor]:
    """(g'(c) + g'(c + a)) / 2 and (g'(c) - g'(c + a)) / z, both times (1 + c) (1 + c + a) / m = m -
    a z / 4."""
    if p == 0:
        return (slope := y.new_tensor(s)), slope
    # of s (1 + x)^p
    middle = _polynomial(even_terms(p, y.dtype == torch.float32), y, s, space).mul_(raised)
    mean = torch.addcmul(middle, rate, y, value=-p / 4, out=space.tile(y))
    return mean, torch.sub(middle, rate, alpha=p, out=middle)


def _polynomial(terms: tuple[float, ...], y: Tensor, scale: float, space: Space) -> Tensor:
    """By Horner's rule, divided by the highest term until the end: one pass over the tile less than
    terms."""
    highest, start, steps, last = _steps(terms, scale, y.dtype, y.device)
    value = torch.add(y, start, out=space.tile(y))
    for constant in steps:
        torch.addcmul(constant, value, y, out=value)
    return torch.addcmul(last, value, y, value=highest, out=value)


@lru_cache(maxsize=64)
def _steps(
    terms: tuple[float, ...], scale: float, dtype: torch.dtype, device: torch.device
) -> tuple[float, float, list[Tensor], Tensor]:
    """The highest term, and the others as what is added at each step of ``_polynomial``."""
    lowest, *middle, highest = (scale * term for term in terms)
    highest = highest or 1e-30  # p = 1 has no higher terms
    *constants, start = (term / highest for term in middle)
    last, *steps = torch.tensor([lowest, *constants], dtype=dtype, device=device).unbind()
    return highest, start, steps[::-1], last
