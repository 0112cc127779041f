"""Starting the Triton kernels: their arguments, the memory between them, and the autograd function
around them.

docs/KERNEL.md tells the way of a call through the kernels. Imported at the first call only, for it
imports triton.
"""

import math
from typing import Any

import torch
from torch import Tensor

from dwindle.core.backends import triton_kernels as kernels
from dwindle.core.backends.call import Call, interpreted, kernel_numbers
from dwindle.core.backends.once import once
from dwindle.core.backends.polynomial import few_odd_terms
from dwindle.core.backends.triton_kernels import (
    Curve,
    Gradients,
    Norms,
    Problem,
    RowScales,
    SharedTiles,
    Slots,
    View,
)
from dwindle.core.backends.triton_tiles import (
    BETWEEN,
    KernelPlan,
    launch,
    plan,
    step_positions,
    wide,
)
from dwindle.core.coverage import Coverage
from dwindle.core.rules import accumulate, least_mass
from dwindle.native.vocabulary import GainKind, Mode, kind_of

_SHARED = 2**24  # weights of all items that are held where heads share a coverage
_UNSAVED = 1024  # rows whose coverage between blocks is held where no backward pass needs it
_LOG2E = kernels.LOG2E.value
_WHOLE = 64  # rows that every tile's number of rows divides


def attention(call: Call) -> tuple[Tensor, Coverage]:
    """The context (B, H, T, Dv) and the coverage after; differentiable once."""
    before = call.coverage or Coverage(
        *call.query.new_zeros((2, *call.state_shape), dtype=torch.float32)
    )
    if call.query.shape[2] == 1 and not call.differentiates():
        after = Coverage(*(x.clone(memory_format=torch.contiguous_format) for x in before))
        return step(call._replace(coverage=after)), after
    number = _number(call.seed())
    contexts, rows = [], _at_once(call)
    for start in range(0, call.query.shape[2], rows):
        context, before = _attention(
            _rows(call, slice(start, start + rows)), number + start, before
        )
        contexts.append(context)
    return contexts[0] if len(contexts) == 1 else torch.cat(contexts, 2), before


def _at_once(call: Call) -> int:
    """Rows of one go: all, but for what would be held for each of them."""
    if call.rule.share_heads:
        return max(
            BETWEEN, _SHARED // (call.query.shape[0] * call.key.shape[2]) // BETWEEN * BETWEEN
        )
    return call.query.shape[2] if call.differentiates() else _UNSAVED


def _attention(call: Call, seed: int, before: Coverage) -> tuple[Tensor, Coverage]:
    tensors = call.query, call.key, call.value, call.bias
    context, *after = _Fused.apply(call, seed, *tensors, *before)  # type: ignore[no-untyped-call]
    return context, Coverage(*after)


def _rows(call: Call, rows: slice) -> Call:
    """Some rows of a call."""
    return call._replace(
        query=call.query[:, :, rows],
        mask=call.mask if call.mask is None or call.mask.shape[2] == 1 else call.mask[:, :, rows],
        bias=call.bias if call.bias is None or call.bias.shape[2] == 1 else call.bias[:, :, rows],
        rows=None if call.rows is None else call.rows[:, rows],
    )


def _number(seed: Tensor | None) -> int:
    return 0 if seed is None else int(seed) % 2**31


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        call: Call,
        seed: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        total: Tensor,
        peak: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        call = call._replace(query=query, key=key, value=value, bias=bias)
        x = problem(call, seed)
        norms = _norms(call, x)
        state, shared, after = _states(call, x, norms, Coverage(total, peak))
        parts, sums = _forward(call, x, norms, state, shared)
        context, free, scale, drift = _finished(call, parts, sums)
        ctx.save_for_backward(
            query, key, value, bias, *norms, *(state or (total, peak)), free, scale, drift
        )
        ctx.call = call._replace(
            query=query[:0], key=key[:0], value=value[:0], bias=None, coverage=None
        )
        ctx.seed = seed
        ctx.set_materialize_grads(False)
        if state is not None:
            after = Coverage(*(slots[:, :, -1].clone() for slots in state))
        return context, after.total, after.peak

    @staticmethod
    @once
    def backward(ctx: Any, grad: Tensor | None, *later: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, bias, highest, inverse, total, peak, free, scale, drift = (
            ctx.saved_tensors
        )
        call = ctx.call._replace(query=query, key=key, value=value, bias=bias)
        x, norms = problem(call, ctx.seed), Norms(highest, inverse)
        if grad is None:  # only the coverage was used
            grad = query.new_zeros(*query.shape[:3], value.shape[3])
        if grad.stride(3) != 1:  # as a sum's: number by number, loads would be most of the work
            grad = grad.contiguous()
        finish = None
        if free is not None:
            drift = torch.linalg.vecdot(grad.float(), free) * drift
            finish = RowScales(scale, drift)
        total_later, peak_later = (None if g is None else g.contiguous() for g in later)
        through = x.g2 is not None and not kernel_numbers(call.rule).detach_gate  # type: ignore[union-attr]
        gate = 1 if through or peak_later is not None else None
        given = Gradients(view(grad), finish, total_later, peak_later, gate, 1 if through else None)
        if call.rule.share_heads:
            before = Coverage(total, peak)
            shared, states = _shared_backward(call, x, norms, before, given, through, later)
            found = _backward(call, x, norms, None, shared, given, ctx.needs_input_grad[5])
            return None, None, *found[:4], *states
        state = Slots(total, peak)
        return None, None, *_backward(call, x, norms, state, None, given, ctx.needs_input_grad[5])


def problem(call: Call, seed: int) -> Problem:
    """A call as kernels take it."""
    numbers = kernel_numbers(call.rule)
    if numbers is None:
        raise ValueError(f"the kernels have no code for the rule {call.rule}")
    _, h, t, _ = call.query.shape
    dtype = call.query.dtype
    return Problem(
        q=view(call.query),
        k=view(call.key),
        v=view(call.value),
        bias=None if call.bias is None else _spread(call.bias),
        mask=None if call.mask is None else _spread(call.mask),
        protected=None if call.protected is None else _spread(call.protected[:, :, None]),
        source=None if call.source is None else _spread(call.source[:, None, None]),
        rows=None if call.rows is None else _spread(call.rows[:, None, None]),
        H=h,
        Hk=call.key.shape[1],
        T=t,
        S=call.key.shape[2],
        P=call.state_shape[2],
        scale=call.scale / call.softcap if call.softcap else call.scale * _LOG2E,
        softcap=call.softcap * _LOG2E if call.softcap else None,
        dropout=(call.dropout, seed) if call.dropout else None,
        g1=curve(numbers.s1, numbers.p1, dtype) if numbers.mode else None,
        g2=curve(numbers.s2, numbers.p2, dtype) if numbers.mode == Mode.DYDIM else None,
        ptx=None if interpreted() or torch.version.hip else 1,
    )


def curve(s: float, p: float, dtype: torch.dtype) -> Curve:
    """g as kernels take it, with as many terms as the dtype of the weights can tell apart."""
    terms = tuple(s * c for c in few_odd_terms(p, torch.finfo(dtype).eps / 8))
    return (
        Curve(None, s, terms)
        if kind_of(p) == GainKind.LOG
        else Curve(p, (p - 1, math.log2(s)), terms)
    )


def view(x: Tensor) -> View:
    """A tensor (B, H, rows, columns)."""
    return View(x, *x.stride())


def _spread(x: Tensor) -> View:
    """A tensor that is repeated along dimensions of size 1."""
    strides = _strides(x)
    x = x.view(torch.uint8) if x.dtype == torch.bool else x
    return View(x, strides[0], strides[1], None if x.shape[2] == 1 else strides[2], strides[3])


def _strides(x: Tensor) -> tuple[int, ...]:
    """0 along dimensions of size 1, in which it is repeated."""
    return tuple(0 if n == 1 else stride for n, stride in zip(x.shape, x.stride(), strict=True))


def _norms(call: Call, x: Problem) -> Norms:
    b, h, t, _ = call.query.shape
    norms = Norms(*(call.query.new_empty((b, h, t), dtype=torch.float32) for _ in range(2)))
    norms = norms if call.bias is not None else norms._replace(inverse=None)
    _plan("norms", call).start((b * h, _each(t, "ROWS")), x, norms)
    return norms


def _plan(name: str, call: Call) -> KernelPlan:
    return plan(name, call, alone=interpreted())


def _each(n: int, size: str) -> Any:
    """So many blocks of the size that a tile has."""
    return lambda sizes: -(-n // sizes[size])


def _states(
    call: Call, x: Problem, norms: Norms, before: Coverage
) -> tuple[Slots | None, SharedTiles | None, Coverage]:
    """The coverage before each block of rows (the first one for now), or, where heads share it,
    before each row."""
    t = call.query.shape[2]
    if call.rule.share_heads:
        with torch.no_grad():
            covered, peaks, after = accumulate(
                _mean(call, x, norms), before, every_peak=x.g2 is not None
            )
        return None, SharedTiles(covered.contiguous(), peaks.contiguous(), None), after
    shape = (*before.total.shape[:2], -(-t // BETWEEN) + 1, x.P)
    state = Slots(*(call.query.new_empty(shape, dtype=torch.float32) for _ in range(2)))
    for slots, start in zip(state, before, strict=True):
        slots[:, :, 0] = start
    return state, None, before


def _mean(call: Call, x: Problem, norms: Norms) -> Tensor:
    """(B, 1, T, P): the attention that all heads' coverage counts."""
    b, _, t, _ = call.query.shape
    mean = call.query.new_empty((b, 1, t, x.P), dtype=torch.float32)
    _plan("shared_mean", call).start((b, _each(t, "ROWS"), _each(x.P, "BLOCK")), x, norms, mean)
    return mean


def _forward(
    call: Call, x: Problem, norms: Norms, state: Slots | None, shared: SharedTiles | None
) -> tuple[list[Tensor | None], Tensor | None]:
    """Context, and context that is kept as it is, in parts; the sums of what is renormalised."""
    b, h, t, _ = call.query.shape
    forward = _plan("forward", call)
    parts, span = _split(x.S, b * h, forward.size("BLOCK", max), call.query.device)
    renormalise = call.rule.renormalise and x.g1 is not None
    some = any(option is not None for option in (x.protected, x.source, x.rows))
    whole = parts == 1 and not renormalise
    new = call.query.new_empty
    context = new(
        (parts, b, h, t, call.value.shape[3]), dtype=call.query.dtype if whole else torch.float32
    )
    kept = torch.empty_like(context) if renormalise and some else None
    sums = new((2, parts, b, h, t), dtype=torch.float32) if renormalise else None
    forward.start((b * h, parts), x, norms, state, shared, context, kept, sums, span)
    return [context, kept], sums


def _split(positions: int, units: int, block: int, device: torch.device) -> tuple[int, int]:
    """Into how many parts the source is cut so that all processors of the device have work, and
    their length."""
    processors = (
        torch.cuda.get_device_properties(device).multi_processor_count
        if device.type == "cuda"
        else 4
    )
    blocks = -(-positions // block)
    parts = max(1, min(blocks, -(-2 * processors // units)))
    span = -(-blocks // parts) * block
    return -(-positions // span), span


def _finished(
    call: Call, parts: list[Tensor | None], sums: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """The context in the dtype of the query. Where rows are renormalised also the part of it that
    is, the factor, and what turns <gradient, that part> into the drift of ``rules.py``."""
    whole, kept = (None if x is None else x[0] if x.shape[0] == 1 else x.sum(0) for x in parts)
    assert whole is not None
    if sums is None:
        return whole.to(call.query.dtype), None, None, None
    mass, have = sums.sum(1)
    scale = mass / have.masked_fill(have == 0, 1)
    drift = (have >= least_mass(have.dtype)) / have.masked_fill(have == 0, 1)
    context = whole * scale[..., None]
    if kept is not None:
        context = context + kept
    return context.to(call.query.dtype), whole, scale, drift


def _backward(
    call: Call,
    x: Problem,
    norms: Norms,
    state: Slots | None,
    shared: SharedTiles | None,
    given: Gradients,
    bias_gradient: bool,
) -> tuple[Tensor | None, ...]:
    """Gradients of query, key, value, bias, total and peak."""
    query, key, value, bias = call.query, call.key, call.value, call.bias
    b, h, t, _ = query.shape
    units, s, grouped = b * h, x.S, x.Hk != x.H
    new = query.new_empty
    dv = new((b, h, s, value.shape[3]), dtype=torch.float32 if grouped else value.dtype)
    dk = new((b, h, s, key.shape[3]), dtype=torch.float32 if grouped else key.dtype)
    padded = -(-t // _WHOLE) * _WHOLE
    dq = query.new_zeros((b, h, padded, wide(key.shape[3])), dtype=torch.float32)
    dbias = (
        torch.zeros(bias.shape, device=bias.device) if bias is not None and bias_gradient else None
    )
    states = [new((b, h, x.P), dtype=torch.float32) for _ in range(2)]
    values = _plan("backward_values", call)
    parts = -(-s // values.size("BLOCK", min))
    dots = query.new_zeros((b, h, parts, t), dtype=torch.float32)
    values.start((units, _each(s, "BLOCK")), x, norms, state, shared, given, dv, dots, parts)
    dots = dots.sum(2)
    strides = None if dbias is None else _strides(dbias)
    _plan("backward_scores", call).start(
        *((units, _each(s, "BLOCK")), x, norms, state, shared, given, dots),
        *(dbias, strides, dq, dk, *states, call.scale, padded),
    )
    if grouped:
        dk, dv = (g.view(b, x.Hk, x.H // x.Hk, *g.shape[2:]).sum(2) for g in (dk, dv))
    dq = dq[:, :, :t, : key.shape[3]]
    return dq.to(query.dtype), dk.to(key.dtype), dv.to(value.dtype), dbias, *states


def _shared_backward(
    call: Call,
    x: Problem,
    norms: Norms,
    before: Coverage,
    given: Gradients,
    through: bool,
    later: tuple[Tensor | None, ...],
) -> tuple[SharedTiles, list[Tensor | None]]:
    """Worth of the attention of one head to later rows of all, and the gradients of the
    coverage before."""
    b, h, t, _ = call.query.shape
    mean = _mean(call, x, norms).requires_grad_()
    starts = [start.detach().requires_grad_() for start in before]
    with torch.enable_grad():
        covered, peaks, after = accumulate(mean, Coverage(*starts), every_peak=x.g2 is not None)
    shared = SharedTiles(covered.detach().contiguous(), peaks.detach().contiguous(), None)
    arriving = [(y, g) for y, g in zip(after, later, strict=True) if g is not None]
    if x.g1 is not None:
        loss, gate_loss = (
            torch.empty_like(mean),
            torch.empty_like(mean) if x.g2 is not None else None,
        )
        grid = (b, _each(t, "ROWS"), _each(x.P, "BLOCK"))
        _plan("shared_losses", call).start(grid, x, norms, shared, given, loss, gate_loss)
        arriving.append((covered, loss))
        if through and gate_loss is not None:
            arriving.append((peaks, gate_loss))
    worth: Tensor | None = None
    states: list[Tensor | None] = [None, None]
    if arriving:
        results, gradients = zip(*arriving, strict=True)
        worth, *found = torch.autograd.grad(results, (mean, *starts), gradients, allow_unused=True)
        states = [*found]
    worth = torch.zeros_like(mean) if worth is None else worth.contiguous() / h
    return shared._replace(worth=worth), states


def step(call: Call) -> Tensor:
    """The context of one row, with the coverage (dense, float32) moved on in place. No
    gradients."""
    b, h, _, d = call.query.shape
    x = problem(call, _number(call.seed()))
    block = step_positions(call.value.shape[3])
    new, parts = call.query.new_empty, -(-x.S // block)
    scores = new((b, h, x.S), dtype=torch.float32)
    norms = new((2, b, h, parts), dtype=torch.float32)
    sizes = {"BLOCK": block, "num_warps": 4}
    launch(
        kernels.step_scores, (b * h, parts), (x, scores, norms), sizes | {"D": d, "WIDE": wide(d)}
    )
    dv = call.value.shape[3]
    renormalise = call.rule.renormalise and x.g1 is not None
    some = any(option is not None for option in (x.protected, x.source, x.rows))
    context = new((parts, b, h, 1, dv), dtype=torch.float32)
    kept = torch.empty_like(context) if renormalise and some else None
    sums = new((2, parts, b, h, 1), dtype=torch.float32) if renormalise else None
    heads = h if call.rule.share_heads else 1
    launch(
        kernels.step_weigh,
        (b * h // heads, parts),
        (x, scores, norms, *call.coverage, context, kept, sums, heads),
        sizes | {"BLOCKS": parts, "PADDED": wide(parts), "DV": dv, "WIDE_V": wide(dv)},
    )
    return _finished(call, [context, kept], sums)[0]
