"""Attention in chunks of heads and blocks of target rows, in plain PyTorch: exact, any device, no
compiler.

Nothing of size T x S is kept: the backward pass computes each block again from the coverage before
it. Any rule and any option. While torch.compile traces, the eager twin is used: the compiler cannot
look into this.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from dwindle.core.backends import eager
from dwindle.core.backends.call import UNTRANSFORMED, Call, block_rows, kernel_numbers
from dwindle.core.backends.diminish import Diminish, FinishRows, Space
from dwindle.core.backends.once import once
from dwindle.core.coverage import Coverage
from dwindle.core.rules import RowRule
from dwindle.core.softmax import attended
from dwindle.core.transforms import transformed
from dwindle.native.vocabulary import KernelNumbers

_FEW = 2**17  # weights: calling more operations costs more than what fewer hold in memory
# weights of a head: options take more operations, and their eager form is slow only where rows are
# many
_SHORT = 2**14
_ELEMENTS = 2**20  # of a tile: what an operation reads and writes should stay in a cache
_ROWS = 64
_FREED = 31 * 2**20

Chunk = tuple[slice, slice]  # items, heads


def objection(call: Call) -> str | None:
    """Reason why tiles cannot do this call, or None if they can."""
    if not isinstance(call.rule, RowRule):
        return f"the rule {call.rule} works from scores"
    return UNTRANSFORMED if transformed(*call.tensors()) else None


def pays(call: Call) -> bool:
    """True unless there are few weights."""
    (b, h, t, _), s = call.query.shape, call.key.shape[2]
    options = (
        call.rule.renormalise
        or call.rule.share_heads
        or call.protected is not None
        or call.felt is not None
    )
    return b * h * t * s > _FEW and call.value.numel() > 0 and not (options and t * s < _SHORT)


def attention(call: Call) -> tuple[Tensor, Coverage]:
    """The context (B, H, T, Dv) and the coverage after; differentiable once."""
    if torch.compiler.is_compiling():
        return eager.attention(call)
    before = call.coverage or _no_coverage(call)
    # When glibc frees a large block it learns to keep up to twice as much for the next ones. Else
    # it hands the memory of every tile back to the system, whose fresh pages cost as much as the
    # arithmetic.
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
        call = call._replace(query=query, key=key, value=value, bias=bias, coverage=None)
        gradients = any(ctx.needs_input_grad)
        chunks, blocks = _tiling(call, gradients)
        context = query.new_empty(*query.shape[:3], value.shape[3])
        after = total.clone(), peak.clone()
        saved = len(blocks) if gradients else 0
        between = [total.new_empty(saved, *total.shape) for _ in range(2)]
        numbers, space = kernel_numbers(call.rule), Space()
        for chunk in chunks:
            at = _state_of(call, chunk)
            state = Coverage(after[0][at], after[1][at])
            for i, rows in enumerate(blocks):
                if saved:
                    between[0][i][at], between[1][i][at] = state
                part = _part(call, chunk, rows, state)
                generator = _generator(seed, call, chunk, i)
                space.restart()
                products = _product(
                    part.query.to(part.dtype) * part.scale, part.key.mT.to(part.dtype), space
                )
                weights, state = _weights(part, products, numbers, generator, space)
                context[*chunk, rows] = weights @ part.value
            after[0][at], after[1][at] = state
        ctx.save_for_backward(seed, query, key, value, bias, *between)
        ctx.call = call._replace(query=query[:0], key=key[:0], value=value[:0], bias=None)
        ctx.set_materialize_grads(False)
        return context, *after

    @staticmethod
    @once
    def backward(ctx: Any, grad: Tensor | None, *later: Tensor | None) -> tuple[Tensor | None, ...]:
        seed, query, key, value, bias, *between = ctx.saved_tensors
        call = ctx.call._replace(query=query, key=key, value=value, bias=bias)
        chunks, blocks = _tiling(call, gradients=True)
        if grad is None:  # only the coverage was used
            grad = query.new_zeros(*query.shape[:3], value.shape[3])
        grads = [None if x is None else x.new_zeros(x.shape) for x in (query, key, value, bias)]
        states = [x.new_zeros(x.shape[1:]) for x in between]
        numbers, space = kernel_numbers(call.rule), Space()
        for chunk in chunks:
            at = _state_of(call, chunk)
            flows = [None if g is None else g[at] for g in later]
            for i, rows in reversed(list(enumerate(blocks))):
                part = _part(call, chunk, rows, Coverage(between[0][i][at], between[1][i][at]))
                generator = _generator(seed, call, chunk, i)
                space.restart()
                flows = _block_backward(
                    part, numbers, generator, space, grad[*chunk, rows], flows, grads, chunk, rows
                )
            for state, flow in zip(states, flows, strict=True):
                if flow is not None:
                    state[at] = flow
        return None, None, *grads, *states


def _product(left: Tensor, right: Tensor, space: Space) -> Tensor:
    out = space.tile(left, *left.shape[:-1], right.shape[-1])
    torch.bmm(left.flatten(0, 1), right.flatten(0, 1), out=out.flatten(0, 1))
    return out


def _weights(
    part: Call,
    products: Tensor,
    numbers: KernelNumbers | None,
    generator: torch.Generator | None,
    space: Space,
) -> tuple[Tensor, Coverage]:
    """A few rows of a few heads: softmax, rule, dropout. The weights are in the value's dtype."""
    a = attended(products, mask=part.mask, bias=part.bias, softcap=part.softcap or None)
    space.back(products)  # nobody's gradient looks at them again
    weights, after = (
        eager.diminished(part, a) if numbers is None else _tile(part, a, numbers, space)
    )
    if generator is not None:
        stays = (
            torch.rand(weights.shape, generator=generator, device=weights.device) >= part.dropout
        )
        weights = weights * stays / (1 - part.dropout)
    return weights.to(part.value.dtype), after


def _tile(part: Call, a: Tensor, numbers: KernelNumbers, space: Space) -> tuple[Tensor, Coverage]:
    """The same as ``eager.diminished``, for a rule that has numbers."""
    felt = None if part.felt is None else part.felt.to(a.dtype)
    given = a if felt is None else a[..., : felt.shape[-1]] * felt
    weights, *state = Diminish.apply(given, *part.coverage, numbers, space)  # type: ignore[no-untyped-call]
    if part.protected is not None or (part.rule.renormalise and numbers.mode):
        free = (
            given.new_ones(1, 1, 1, given.shape[-1])
            if part.protected is None
            else ~part.protected.unsqueeze(-2)
        )
        weights = FinishRows.apply(given, weights, free.to(a.dtype), part.rule.renormalise)  # type: ignore[no-untyped-call]
    if felt is not None:
        covered = felt.shape[-1]
        weights = torch.cat([torch.lerp(a[..., :covered], weights, felt), a[..., covered:]], dim=-1)
    return weights, Coverage(*state)


def _block_backward(
    part: Call,
    numbers: KernelNumbers | None,
    generator: torch.Generator | None,
    space: Space,
    grad: Tensor,
    flows: list[Tensor | None],
    grads: list[Any],
    chunk: Chunk,
    rows: slice,
) -> list[Tensor | None]:
    """Adds the gradients of one block to ``grads``; returns those of the coverage before it (None:
    zero)."""
    query, key = part.query.to(part.dtype) * part.scale, part.key.to(part.dtype)
    tensors = (_product(query, key.mT, space), part.bias, *(part.coverage or ()))
    leaves: list[Any] = [None if x is None else x.detach().requires_grad_() for x in tensors]
    products, bias, total, peak = leaves
    with torch.enable_grad():
        again = part._replace(bias=bias, coverage=Coverage(total, peak))
        weights, after = _weights(again, products, numbers, generator, space)
    items, heads = chunk
    query_heads = grads[0].shape[1]
    _add_product(grads[2], chunk, query_heads, weights.detach().mT, grad)
    arriving = (_product(grad, part.value.mT, space), *flows)
    given = [(x, g) for x, g in zip((weights, *after), arriving, strict=True) if g is not None]
    results, their_grads = zip(*given, strict=True)
    wanted = [x for x in leaves if x is not None]
    found: Iterator[Any] = iter(
        torch.autograd.grad(results, wanted, their_grads, allow_unused=True)
    )
    d: Any
    d, dbias, *before = [None if x is None else next(found) for x in leaves]
    grads[0][items, heads, rows] = (d @ key).mul_(part.scale)
    _add_product(grads[1], chunk, query_heads, d.mT, query)
    if grads[3] is not None:
        _cut(grads[3], items, heads, rows).add_(dbias)  # type: ignore[arg-type]
    return before


def _add_product(
    whole: Tensor, chunk: Chunk, query_heads: int, left: Tensor, right: Tensor
) -> None:
    """Adds ``left @ right``, of the query heads of a chunk, to the gradient of all keys or
    values."""
    items, heads = chunk
    left, right = left.to(whole.dtype), right.to(whole.dtype)
    if whole.shape[1] == query_heads:
        whole[items, heads].flatten(0, 1).baddbmm_(left.flatten(0, 1), right.flatten(0, 1))
    else:
        whole[items].index_add_(1, _key_heads(heads, query_heads, whole), left @ right)


def _part(call: Call, chunk: Chunk, rows: slice, coverage: Coverage) -> Call:
    """The call that is one block of ``call``."""
    items, heads = chunk
    if call.query.shape[1] == call.key.shape[1]:
        key, value = call.key[items, heads], call.value[items, heads]
    else:
        shared = _key_heads(heads, call.query.shape[1], call.key)
        key, value = (x[items].index_select(1, shared) for x in (call.key, call.value))
    return call._replace(
        query=call.query[items, heads, rows],
        key=key,
        value=value,
        mask=None if call.mask is None else _cut(call.mask, items, heads, rows),
        bias=None if call.bias is None else _cut(call.bias, items, heads, rows),
        protected=None if call.protected is None else _cut(call.protected, items, heads),
        source=None if call.source is None else _cut(call.source, items),
        rows=None if call.rows is None else _cut(call.rows, items)[:, rows],
        coverage=coverage,
    )


def _cut(x: Tensor, *slices: slice) -> Tensor:
    """``x[slices]``, but for the dimensions along which it is repeated."""
    return x[
        tuple(slice(None) if n == 1 else part for n, part in zip(x.shape, slices, strict=False))
    ]


def _key_heads(heads: slice, query_heads: int, key: Tensor) -> Tensor:
    return torch.arange(heads.start, heads.stop, device=key.device) // (query_heads // key.shape[1])


def _state_of(call: Call, chunk: Chunk) -> Chunk:
    """Place where the coverage of a chunk lies."""
    return chunk[0], slice(None) if call.rule.share_heads else chunk[1]


def _tiling(call: Call, gradients: bool) -> tuple[list[Chunk], list[slice]]:
    """Chunks of items and heads, blocks of rows, about alike; a pair of them is a tile.

    Whole items if they are small, else some heads of one item; all heads where they share a
    coverage. More rows where that makes one tile of all heads, and twice as many of everything
    without gradients, which need more tiles.
    """
    b, h, t, _ = call.query.shape
    h = max(1, h)
    s, more = call.key.shape[2], 1 if gradients else 2
    elements = more * _ELEMENTS * (1 if call.query.device.type == "cpu" else 32)
    most = max(more * _ROWS, elements // max(1, b * h * s))
    rows = block_rows(t, most)
    fit = max(1, elements // max(1, rows * s))
    items, heads = (max(1, fit // h), h) if fit >= h or call.rule.share_heads else (1, fit)
    chunks = [
        (slice(i, min(i + items, b)), slice(j, min(j + heads, h)))
        for i in range(0, b, items)
        for j in range(0, h, heads)
    ]
    return chunks, [slice(i, min(i + rows, t)) for i in range(0, t, rows)]


def _generator(seed: Tensor | None, call: Call, chunk: Chunk, block: int) -> torch.Generator | None:
    """The same numbers for the same block, forward and backward."""
    if seed is None:
        return None
    b, h = call.query.shape[:2]
    place = (block * b + chunk[0].start) * h + chunk[1].start
    return torch.Generator(call.query.device).manual_seed(int(seed) + place)


def _no_coverage(call: Call) -> Coverage:
    zero = torch.zeros(call.state_shape, dtype=call.dtype, device=call.query.device)
    return Coverage(zero, zero)
