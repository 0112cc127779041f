"""The CPU kernel as ``torch.library`` operators: their schemas, how each hands its tensors to the
compiled library, the shapes of what it returns, and autograd.

``compute``, ``differentiable`` and ``move`` are the same without torch's dispatcher, which costs as
much as a small attention: for calls that nobody records. A rule is the numbers ``RULE`` of
``native/vocabulary.py`` and the terms of both polynomials: every shipped g is Box-Cox.
What the kernel can do is said in ``cpu/__init__.py``. P is the number of positions with coverage, C
that of heads with one of their own (1 with ``share_heads``).
"""

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from dwindle.core.backends.call import block_rows
from dwindle.core.backends.once import NO_SECOND, once
from dwindle.core.coverage import state_dtype
from dwindle.core.transforms import recorded
from dwindle.native.functions import KERNEL, as_doubles
from dwindle.native.vocabulary import RULE, TERMS

_ROWS, _TILE = 256, 2**21  # a tile of scores: at most so many target rows, and elements (rows x S)
_SHARED = 128, 2**24  # the same of heads that share a coverage and are held at once
_FEWEST = 16  # rows, however long the source
_LENGTH = len(RULE) + 2 * TERMS  # numbers of a rule
_MODE, _RENORMALISE, _SHARE_HEADS = map(RULE.index, ("mode", "renormalise", "share_heads"))
_ROW, _SCORES, _PLACES = (0,) * 3, (0,) * 4, (0,) * 3  # strides of tensors that are not given
_FORWARD = (*_ROW, *_SCORES), (None,) * 7  # sizes and arrays that only the backward pass has
_INPUTS = (
    "Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor? mask, "
    "Tensor? protected, Tensor? source, Tensor? rows, "
)
_SETTINGS = "Tensor? seed, float[] rule, float scale, float softcap, float dropout, "
_SIX = "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"

_dwindle: Any = torch.library.Library("dwindle", "FRAGMENT")  # type: ignore[no-untyped-call]
# The context (B, H, T, Dv), the coverage after (B, C, P) twice, and with `save` what the backward
# pass needs: the norms of the rows (B, H, T, 2 or 4; problem.h), and the coverage between blocks of
# rows (B, C, blocks - 1, P) twice.
_dwindle.define(
    f"attention({_INPUTS}Tensor? total, Tensor? peak, {_SETTINGS}SymInt blocks, bool save) -> "
    f"{_SIX}",
    tags=torch.Tag.pt2_compliant_tag,
)
# The context, with the coverage (dense, (B, C, P)) moved on in place. No gradient.
_dwindle.define(
    f"attention_step({_INPUTS}Tensor(a!) total, Tensor(b!) peak, {_SETTINGS}SymInt blocks) -> "
    "Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)
# Gradients of q, k, v, the bias, and the coverage before (the last three empty unless asked for).
# `context` is that of the forward pass, wanted where rows were renormalised.
_dwindle.define(
    f"attention_backward(Tensor grad, Tensor? grad_total, Tensor? grad_peak, {_INPUTS}Tensor? "
    "total, Tensor? peak, "
    "Tensor? seed, Tensor? context, Tensor norms, Tensor totals, Tensor peaks, float[] rule, "
    "float scale, "
    "float softcap, float dropout, "
    f"bool bias_too, bool coverage_too) -> {_SIX}",
    tags=torch.Tag.pt2_compliant_tag,
)
attention = torch.ops.dwindle.attention.default
step = torch.ops.dwindle.attention_step.default
_backward = torch.ops.dwindle.attention_backward.default


def blocks(t: int, s: int, heads: int = 1) -> int:
    """Number of blocks that the target rows are cut into: large ones use each packed key often, but
    must fit the cache.

    ``heads``: how many share a coverage, and are held at once.
    """
    rows, elements = (_ROWS, _TILE) if heads == 1 else _SHARED
    most = max(_FEWEST, min(rows, elements // max(heads * s, 1)))
    return max(1, -(-t // block_rows(t, most)))


def compute(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    protected: Tensor | None,
    source: Tensor | None,
    rows: Tensor | None,
    total: Tensor | None,
    peak: Tensor | None,
    seed: Tensor | None,
    rule: Sequence[float],
    scale: float,
    softcap: float,
    dropout: float,
    blocks: int,
    save: bool,
) -> tuple[Tensor, ...]:
    """Compute ``dwindle::attention`` on a CPU."""
    query, key, value = _dense_rows(query), _dense_rows(key), _dense_rows(value)
    source, rows = _dense(source), _dense(rows)
    out = _context(query, value)
    b, c, p = query.shape[0], 1 if rule[_SHARE_HEADS] else query.shape[1], _covered(key, source)
    after, top = (_copy_or_zeros(x, query, (b, c, p)) for x in (total, peak))
    saved = _saved(query, rule, blocks, c, p) if save else _empty(query)
    sizes = _sizes(query, key, value, bias, mask, protected, source, rows, seed, blocks)
    given = query, key, value, bias, mask, protected, source, rows
    left = [x if x.numel() else None for x in saved]
    numbers = _numbers(tuple(rule), scale, softcap, dropout)
    arrays = *given, out, after, top, *left, *_FORWARD[1]
    KERNEL.run("attention", query.dtype, (*sizes, *_FORWARD[0]), arrays, numbers)
    return out, after, top, *saved


def move(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    protected: Tensor | None,
    source: Tensor | None,
    rows: Tensor | None,
    total: Tensor,
    peak: Tensor,
    seed: Tensor | None,
    rule: Sequence[float],
    scale: float,
    softcap: float,
    dropout: float,
    blocks: int,
) -> Tensor:
    """Compute ``dwindle::attention_step`` on a CPU."""
    query, key, value = _dense_rows(query), _dense_rows(key), _dense_rows(value)
    source, rows = _dense(source), _dense(rows)
    out = _context(query, value)
    sizes = _sizes(query, key, value, bias, mask, protected, source, rows, seed, blocks)
    given = query, key, value, bias, mask, protected, source, rows
    numbers = _numbers(tuple(rule), scale, softcap, dropout)
    arrays = *given, out, total, peak, None, None, None, *_FORWARD[1]
    KERNEL.run("attention", query.dtype, (*sizes, *_FORWARD[0]), arrays, numbers)
    increment_version((total, peak))  # autograd may have kept them
    return out


def _differentiate(
    grad: Tensor,
    grad_total: Tensor | None,
    grad_peak: Tensor | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    protected: Tensor | None,
    source: Tensor | None,
    rows: Tensor | None,
    total: Tensor | None,
    peak: Tensor | None,
    seed: Tensor | None,
    context: Tensor | None,
    norms: Tensor,
    totals: Tensor,
    peaks: Tensor,
    rule: Sequence[float],
    scale: float,
    softcap: float,
    dropout: float,
    bias_too: bool,
    coverage_too: bool,
) -> tuple[Tensor, ...]:
    """Compute ``dwindle::attention_backward`` on a CPU."""
    grad, query, key, value = (_dense_rows(x) for x in (grad, query, key, value))
    source, rows, total, peak = (_dense(x) for x in (source, rows, total, peak))
    blocks = totals.shape[2] + 1
    sizes = _sizes(query, key, value, bias, mask, protected, source, rows, seed, blocks)
    dq, dk, dv = (x.new_empty(x.shape) for x in (query, key, value))
    dbias, dtotal, dpeak = _empty(query)
    if bias_too and bias is not None:
        dbias = _copy_or_zeros(None, query, bias.shape)
    if coverage_too:
        shape = query.shape[0], totals.shape[1], totals.shape[3]
        dtotal, dpeak = (_copy_or_zeros(x, query, shape) for x in (grad_total, grad_peak))
    given = query, key, value, bias, mask, protected, source, rows
    after = [context, total, peak, norms, totals, peaks]
    found = grad, dq, dk, dv, dbias if bias_too else None
    KERNEL.run(
        "attention_backward",
        query.dtype,
        (*sizes, *grad.stride()[:3], *(_repeated(dbias) if bias_too else _SCORES)),
        (
            *given,
            *(None if x is None or not x.numel() else x for x in after),
            *found,
            *((dtotal, dpeak) if coverage_too else (None, None)),
        ),
        _numbers(tuple(rule), scale, softcap, dropout),
    )
    return dq, dk, dv, dbias, dtotal, dpeak


def _sizes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    protected: Tensor | None,
    source: Tensor | None,
    rows: Tensor | None,
    seed: Tensor | None,
    blocks: int,
) -> tuple[int, ...]:
    """Sizes and strides, in the order in which ``problem`` of attention.h reads them."""
    b, h, t, d = query.shape
    _, hk, s, dv = value.shape
    p = _covered(key, source)
    return (
        *(b, h, hk, t, s, d, dv, p),
        -(-t // blocks),
        0 if seed is None else int(seed),
        *query.stride()[:3],
        *key.stride()[:3],
        *value.stride()[:3],
        *(_SCORES if bias is None else _repeated(bias)),
        *(_SCORES if mask is None else _repeated(mask)),
        *(_PLACES if protected is None else _repeated(protected)),
        0 if source is None or source.shape[0] == 1 else p,
        0 if rows is None or rows.shape[0] == 1 else t,
    )


@lru_cache(maxsize=64)
def _numbers(
    rule: tuple[float, ...], scale: float, softcap: float, dropout: float
) -> "ctypes.Array[ctypes.c_double]":
    if len(rule) != _LENGTH:
        raise ValueError(f"a rule is {_LENGTH} numbers, not {len(rule)}")
    return as_doubles((scale, softcap, dropout, *rule))


def _repeated(x: Tensor) -> tuple[int, ...]:
    """Strides, 0 along dimensions of size 1, in which it is repeated."""
    return tuple([0 if n == 1 else stride for n, stride in zip(x.shape, x.stride(), strict=True)])


def _dense_rows(x: Tensor) -> Tensor:
    """The kernel wants the last dimension dense; the others may lie anyhow."""
    return x if x.stride(3) == 1 or x.shape[3] == 1 else x.contiguous()


def _dense(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


def _copy_or_zeros(x: Tensor | None, query: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A state of its own, dense: the kernel writes to it."""
    made = _state(query, *shape)
    return made.zero_() if x is None else made.copy_(x)


def _saved(
    query: Tensor, rule: Sequence[float], blocks: int, c: int, p: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Room for what the backward pass needs."""
    b, h, t, _ = query.shape
    norms = _state(query, b, h, t, 4 if rule[_RENORMALISE] and rule[_MODE] else 2)
    return norms, _state(query, b, c, blocks - 1, p), _state(query, b, c, blocks - 1, p)


def _empty(query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same where nothing is saved: an operator returns as many tensors every time."""
    return _state(query, 0), _state(query, 0), _state(query, 0)


def _covered(key: Tensor, source: Tensor | None) -> int:
    """P: the number of positions with coverage."""
    return key.shape[2] if source is None else source.shape[1]


def _context(query: Tensor, value: Tensor) -> Tensor:
    return query.new_empty((*query.shape[:3], value.shape[3]))


def _state(query: Tensor, *shape: int) -> Tensor:
    return query.new_empty(shape, dtype=state_dtype(query))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Keep all that the backward pass of ``dwindle::attention`` needs."""
    *tensors, rule, scale, softcap, dropout, _, save = inputs
    if not save:
        raise RuntimeError("dwindle::attention gives gradients with save=True only")
    out, _, _, *saved = output
    ctx.save_for_backward(*tensors, out if rule[_RENORMALISE] else None, *saved)
    ctx.settings = rule, scale, softcap, dropout
    ctx.mark_non_differentiable(*saved)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    """The backward pass of ``dwindle::attention``. ``grads``: of the context, the coverage after,
    and what was saved, which has none."""
    query, _, value, *_ = saved = ctx.saved_tensors
    wants = ctx.needs_input_grad
    bias_too, coverage_too = wants[3], wants[8] or wants[9]
    through = coverage_too or grads[1] is not None or grads[2] is not None
    grad = grads[0]
    if grad is None:  # only the coverage was used
        grad = query.new_zeros((*query.shape[:3], value.shape[3]))
    run: Any = _backward if recorded(grad, query) else _differentiate
    dq, dk, dv, dbias, dtotal, dpeak = run(
        grad, *grads[1:3], *saved, *ctx.settings, bias_too, through
    )
    coverage = (dtotal, dpeak) if coverage_too else (None, None)
    # None for the mask, protected, source and rows; for the seed and the six settings
    return dq, dk, dv, dbias if bias_too else None, *[None] * 4, *coverage, *[None] * 7


class _Direct(torch.autograd.Function):
    """``compute`` with its gradients."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        output = compute(*inputs)
        _keep(ctx, inputs, output)
        return output

    backward = staticmethod(once(_gradients))


differentiable = _Direct.apply


def _refuse(ctx: Any, *_: Tensor | None) -> None:
    raise RuntimeError(NO_SECOND)


_dwindle.impl("attention", compute, "CPU")
_dwindle.impl("attention_step", move, "CPU")
_dwindle.impl("attention_backward", _differentiate, "CPU")
torch.library.register_autograd("dwindle::attention", _gradients, setup_context=_keep, lib=_dwindle)
torch.library.register_autograd("dwindle::attention_backward", _refuse, lib=_dwindle)


@torch.library.register_fake("dwindle::attention", lib=_dwindle)  # type: ignore[untyped-decorator]
def _(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> tuple[Tensor, ...]:
    _, _, _, source, *_, rule, _, _, _, blocks, save = others
    b, c, p = query.shape[0], 1 if rule[_SHARE_HEADS] else query.shape[1], _covered(key, source)
    saved = _saved(query, rule, blocks, c, p) if save else _empty(query)
    return _context(query, value), _state(query, b, c, p), _state(query, b, c, p), *saved


@torch.library.register_fake("dwindle::attention_step", lib=_dwindle)  # type: ignore[untyped-decorator]
def _(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> Tensor:
    return _context(query, value)


@torch.library.register_fake("dwindle::attention_backward", lib=_dwindle)  # type: ignore[untyped-decorator]
def _(
    grad: Tensor,
    grad_total: Tensor | None,
    grad_peak: Tensor | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    *others: Any,
) -> tuple[Tensor, ...]:
    *_, totals, _, _, _, _, _, bias_too, coverage_too = others
    dense = [x.new_empty(x.shape) for x in (query, key, value)]
    dbias = _state(query, *bias.shape) if bias_too and bias is not None else _state(query, 0)
    state = (query.shape[0], totals.shape[1], totals.shape[3]) if coverage_too else (0,)
    return *dense, dbias, _state(query, *state), _state(query, *state)
