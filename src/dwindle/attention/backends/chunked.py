"""Attention in chunks of heads and blocks of target rows, in plain PyTorch: exact, any device, no compiler.

A tile, some rows of some heads, lies as (B, H, S, T): diminish.py says why.
Nothing of size T x S is kept: the backward pass computes each block again from the coverage before it. Any
rule and any option. While torch.compile traces, the eager twin is used: the compiler cannot look into this.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dwindle.attention.backends import eager
from dwindle.attention.backends.call import Call
from dwindle.attention.backends.diminish import Diminish
from dwindle.attention.coverage import Coverage
from dwindle.attention.softmax import attended

_ELEMENTS = 2**19  # of a block's scores: what an operation reads and writes should stay in a cache
_ROWS = 64
_FREED = 31 * 2**20

Chunk = tuple[slice, slice]  # items, heads


def attention(call: Call) -> tuple[Tensor, Coverage]:
    """The context (B, H, T, Dv) and the coverage after; differentiable once."""
    if torch.compiler.is_compiling():
        return eager.attention(call)
    before = call.coverage or _no_coverage(call)
    # When glibc frees a large block it learns to keep up to twice as much for the next ones. Else it hands the
    # memory of every tile back to the system, whose fresh pages cost as much as the arithmetic.
    torch.empty(_FREED, dtype=torch.uint8)
    context, total, peak = _Chunked.apply(  # type: ignore[no-untyped-call]
        call, call.seed(), call.query, call.key, call.value, call.bias, *before
    )
    return context, Coverage(total, peak)


class _Chunked(torch.autograd.Function):
    """All chunks, block after block; backward from the last block to the first."""

    @staticmethod
    def forward(
        ctx: Any,
        call: Call,
        seed: Tensor | None,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        total: Tensor,
        peak: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        call = replace(call, query=query, key=key, value=value, bias=bias, coverage=None)
        blocks = _blocks(query.shape[2])
        context = query.new_empty(*query.shape[:3], value.shape[3])
        after = total.clone(), peak.clone()
        saved = len(blocks) if any(ctx.needs_input_grad) else 0
        between = [total.new_empty(saved, *total.shape) for _ in range(2)]
        numbers = _numbers(call)
        for chunk in _chunks(call):
            at = _state_of(call, chunk)
            state = Coverage(after[0][at], after[1][at])
            for i, rows in enumerate(blocks):
                if saved:
                    between[0][i][at], between[1][i][at] = state
                part = _part(call, chunk, rows, state)
                weights, state = _weights(part, numbers, _generator(seed, call, chunk, i))
                context[*chunk, rows] = weights.mT @ part.value
            after[0][at], after[1][at] = state
        ctx.save_for_backward(seed, query, key, value, bias, *between)
        ctx.call = replace(call, query=query[:0], key=key[:0], value=value[:0], bias=None)
        ctx.set_materialize_grads(False)
        return context, *after

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor | None, *later: Tensor | None) -> tuple[Tensor | None, ...]:
        seed, query, key, value, bias, *between = ctx.saved_tensors
        call = replace(ctx.call, query=query, key=key, value=value, bias=bias)
        blocks = list(enumerate(_blocks(query.shape[2])))
        if grad is None:  # only the coverage was used
            grad = query.new_zeros(*query.shape[:3], value.shape[3])
        grads = [None if x is None else torch.zeros_like(x) for x in (query, key, value, bias)]
        states = [x.new_zeros(x.shape[1:]) for x in between]
        numbers = _numbers(call)
        for chunk in _chunks(call):
            at = _state_of(call, chunk)
            flows = [None if g is None else g[at] for g in later]
            for i, rows in reversed(blocks):
                part = _part(call, chunk, rows, Coverage(between[0][i][at], between[1][i][at]))
                generator = _generator(seed, call, chunk, i)
                flows = _block_backward(part, numbers, generator, grad[*chunk, rows], flows, grads, chunk, rows)
            for state, flow in zip(states, flows, strict=True):
                if flow is not None:
                    state[at] = flow
        return None, None, *grads, *states


def _weights(part: Call, numbers: list[float] | None, generator: torch.Generator | None) -> tuple[Tensor, Coverage]:
    """A few rows of a few heads: scores, softmax, rule, dropout. The weights as (B, H, S, T) in the value's dtype."""
    a = _tile(part)
    if numbers is None or part.coverage is None:
        weights, after = part.rule(a.mT, part.coverage, protected=part.kept)
    else:
        weights, *state = Diminish.apply(a, *part.coverage, numbers)  # type: ignore[no-untyped-call]
        weights, after = part.rule.finish(a.mT, weights.mT, part.kept), Coverage(*state)
    if generator is not None:
        kept = torch.rand(weights.shape, generator=generator, device=weights.device) >= part.dropout
        weights = weights * kept / (1 - part.dropout)
    return weights.mT.to(part.value.dtype), after


def _numbers(call: Call) -> list[float] | None:
    """``Call.numbers``, if tiles can do the rule; they leave ``renormalise`` to ``Rule.finish``."""
    return replace(call, rule=replace(call.rule, renormalise=False)).numbers()


def _tile(part: Call) -> Tensor:
    """The plain attention of a block as (B, H, S, T)."""
    scores = part.key @ (part.query * part.scale).mT
    softcap = part.softcap or None
    if scores.shape[-1] == 1:  # a column of one row lies like the row, and softmax is quicker along that
        return attended(scores.mT, mask=part.mask, bias=part.bias, softcap=softcap).mT
    mask, bias = (None if x is None else x.mT for x in (part.mask, part.bias))
    return attended(scores, mask=mask, bias=bias, softcap=softcap, dim=-2)


def _block_backward(
    part: Call,
    numbers: list[float] | None,
    generator: torch.Generator | None,
    grad: Tensor,
    flows: list[Tensor | None],
    grads: list[Any],
    chunk: Chunk,
    rows: slice,
) -> list[Tensor | None]:
    """Adds the gradients of one block to ``grads``; returns those of the coverage before it (None: zero)."""
    query_heads = grads[0].shape[1]
    tensors = (part.query, part.key, part.bias, *(part.coverage or ()))
    leaves: list[Any] = [None if x is None else x.detach().requires_grad_() for x in tensors]
    query, key, bias, total, peak = leaves
    with torch.enable_grad():
        again = replace(part, query=query, key=key, bias=bias, coverage=Coverage(total, peak))
        weights, after = _weights(again, numbers, generator)
    dv = weights.detach() @ grad
    given = [(x, g) for x, g in zip((weights, *after), (part.value @ grad.mT, *flows), strict=True) if g is not None]
    results, their_grads = zip(*given, strict=True)
    wanted = [x for x in leaves if x is not None]
    found: Iterator[Any] = iter(torch.autograd.grad(results, wanted, their_grads, allow_unused=True))
    dq, dk, dbias, *before = [None if x is None else next(found) for x in leaves]
    items, heads = chunk
    grads[0][items, heads, rows] = dq
    for whole, g in zip(grads[1:3], (dk, dv), strict=True):
        if whole.shape[1] == query_heads:
            whole[items, heads] += g
        else:
            whole[items].index_add_(1, _key_heads(heads, query_heads, whole), g)
    if grads[3] is not None:
        _cut(grads[3], items, heads, rows).add_(dbias)  # type: ignore[arg-type]
    return before


def _part(call: Call, chunk: Chunk, rows: slice, coverage: Coverage) -> Call:
    """The call that is one block of ``call``."""
    items, heads = chunk
    if call.query.shape[1] == call.key.shape[1]:
        key, value = call.key[items, heads], call.value[items, heads]
    else:
        shared = _key_heads(heads, call.query.shape[1], call.key)
        key, value = (x[items].index_select(1, shared) for x in (call.key, call.value))
    return replace(
        call,
        query=call.query[items, heads, rows],
        key=key,
        value=value,
        mask=None if call.mask is None else _cut(call.mask, items, heads, rows),
        bias=None if call.bias is None else _cut(call.bias, items, heads, rows),
        kept=None if call.kept is None else _cut(call.kept, items, heads),
        coverage=coverage,
    )


def _cut(x: Tensor, *slices: slice) -> Tensor:
    """``x[slices]``, but for the dimensions along which it is repeated."""
    return x[tuple(slice(None) if n == 1 else part for n, part in zip(x.shape, slices, strict=False))]


def _key_heads(heads: slice, query_heads: int, key: Tensor) -> Tensor:
    return torch.arange(heads.start, heads.stop, device=key.device) // (query_heads // key.shape[1])


def _state_of(call: Call, chunk: Chunk) -> Chunk:
    """Where the coverage of a chunk lies."""
    return chunk[0], slice(None) if call.rule.share_heads else chunk[1]


def _chunks(call: Call) -> Iterator[Chunk]:
    """Whole items if they are small, else some heads of one item; all heads where they share a coverage."""
    b, h, t, _ = call.query.shape
    most = _ELEMENTS * (1 if call.query.device.type == "cpu" else 32)
    fit = max(1, most // max(1, min(t, _ROWS) * call.key.shape[2]))
    items, heads = (max(1, fit // h), h) if fit >= h or call.rule.share_heads else (1, fit)
    for i in range(0, b, items):
        for j in range(0, h, heads):
            yield slice(i, min(i + items, b)), slice(j, min(j + heads, h))


def _blocks(t: int) -> list[slice]:
    return [slice(i, min(i + _ROWS, t)) for i in range(0, t, _ROWS)]


def _generator(seed: Tensor | None, call: Call, chunk: Chunk, block: int) -> torch.Generator | None:
    """The same numbers for the same block, forward and backward."""
    if seed is None:
        return None
    b, h = call.query.shape[:2]
    place = (block * b + chunk[0].start) * h + chunk[1].start
    return torch.Generator(call.query.device).manual_seed(int(seed) + place)


def _no_coverage(call: Call) -> Coverage:
    b, h = call.query.shape[:2]
    shape = (b, 1 if call.rule.share_heads else h, call.key.shape[2])
    zero = torch.zeros(shape, dtype=call.dtype, device=call.query.device)
    return Coverage(zero, zero)
