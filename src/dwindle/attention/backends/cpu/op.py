"""The CPU kernel as ``torch.library`` operators: forward, backward, and a decoding step in place.

Knows tensors, the C structure and autograd. A rule is only ``[mode, s1, p1, s2, p2, detach_gate]``: every
shipped g is a Box-Cox function (s, p). What the kernel can do is said in ``cpu/__init__.py``.
"""

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from dwindle.attention.backends.cpu.build import Problem, library
from dwindle.attention.backends.polynomial import TERMS, terms

DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
_ROWS, _TILE = 256, 2**21  # a tile of scores: at most so many target rows, and elements (rows x S)
_PLAIN, _DIM, _DYDIM = range(3)
_NONE, _LOG, _POWER = range(3)


def block_rows(t: int, s: int) -> int:
    """Target rows of a block: enough to use each packed key often, few enough for the cache."""
    most = max(16, min(_ROWS, _TILE // max(s, 1)))
    return -(-t // max(-(-t // most), 1))


def compute(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    kept: Tensor | None,
    total: Tensor | None,
    peak: Tensor | None,
    seed: Tensor | None,
    rule: Sequence[float],
    scale: float,
    softcap: float,
    dropout: float,
    save: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Context (B, H, T, Dv), coverage after (B, H, S) twice, and what the backward pass needs (``save``).

    That is the log-sum-exp (B, H, T) and the coverage between blocks of rows (B, H, blocks - 1, S).
    """
    query, key, value = _dense_rows(query), _dense_rows(key), _dense_rows(value)
    out, after, top, lse, totals, peaks = _outputs(query, key, value, save)
    after.copy_(total) if total is not None else after.zero_()
    top.copy_(peak) if peak is not None else top.zero_()
    p = _problem(query, key, value, bias, mask, kept, rule, scale, softcap, dropout, seed)
    p.out, p.total, p.peak = out.data_ptr(), after.data_ptr(), top.data_ptr()
    if save:
        p.lse, p.totals, p.peaks = lse.data_ptr(), _pointer(totals), _pointer(peaks)
    _run("dwindle_forward", p)
    return out, after, top, lse, totals, peaks


forward = torch.library.custom_op("dwindle::attention", compute, mutates_args=(), device_types="cpu")


@forward.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    kept: Tensor | None,
    total: Tensor | None,
    peak: Tensor | None,
    seed: Tensor | None,
    rule: Sequence[float],
    scale: float,
    softcap: float,
    dropout: float,
    save: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _outputs(query, key, value, save)


def compute_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    kept: Tensor | None,
    total: Tensor,
    peak: Tensor,
    seed: Tensor | None,
    rule: Sequence[float],
    scale: float,
    softcap: float,
    dropout: float,
) -> Tensor:
    """The context, with ``total`` and ``peak`` (dense, (B, H, S)) moved on in place. No gradient."""
    query, key, value = _dense_rows(query), _dense_rows(key), _dense_rows(value)
    out = _context(query, value)
    p = _problem(query, key, value, bias, mask, kept, rule, scale, softcap, dropout, seed)
    p.out, p.total, p.peak = out.data_ptr(), total.data_ptr(), peak.data_ptr()
    _run("dwindle_forward", p)
    return out


step = torch.library.custom_op(
    "dwindle::attention_step", compute_step, mutates_args=("total", "peak"), device_types="cpu"
)


@step.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    kept: Tensor | None,
    total: Tensor,
    peak: Tensor,
    seed: Tensor | None,
    rule: Sequence[float],
    scale: float,
    softcap: float,
    dropout: float,
) -> Tensor:
    return _context(query, value)


def compute_backward(
    grad: Tensor,
    grad_total: Tensor | None,
    grad_peak: Tensor | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    kept: Tensor | None,
    total: Tensor | None,
    peak: Tensor | None,
    seed: Tensor | None,
    lse: Tensor,
    totals: Tensor,
    peaks: Tensor,
    rule: Sequence[float],
    scale: float,
    softcap: float,
    dropout: float,
    bias_too: bool,
    coverage_too: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v, the bias, and the coverage before (the last three empty unless asked for)."""
    grad, query, key, value = (_dense_rows(x) for x in (grad, query, key, value))
    gradients = _gradients(query, key, value, bias, bias_too, coverage_too)
    dq, dk, dv, dbias, dtotal, dpeak = gradients
    p = _problem(query, key, value, bias, mask, kept, rule, scale, softcap, dropout, seed)
    p.dout, p.dout_stride[:] = grad.data_ptr(), grad.stride()[:3]
    p.total, p.peak, p.lse = _pointer(total), _pointer(peak), lse.data_ptr()
    p.totals, p.peaks = _pointer(totals), _pointer(peaks)
    p.dq, p.dk, p.dv = dq.data_ptr(), dk.data_ptr(), dv.data_ptr()
    if bias_too and bias is not None:
        dbias.zero_()
        p.dbias, p.dbias_stride[:] = dbias.data_ptr(), _broadcast(dbias)
    if dtotal.numel():
        dtotal.copy_(grad_total) if grad_total is not None else dtotal.zero_()
        dpeak.copy_(grad_peak) if grad_peak is not None else dpeak.zero_()
        p.dtotal, p.dpeak = dtotal.data_ptr(), dpeak.data_ptr()
    _run("dwindle_backward", p)
    return gradients


backward = torch.library.custom_op("dwindle::attention_backward", compute_backward, mutates_args=(), device_types="cpu")


@backward.register_fake
def _(
    grad: Tensor,
    grad_total: Tensor | None,
    grad_peak: Tensor | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    kept: Tensor | None,
    total: Tensor | None,
    peak: Tensor | None,
    seed: Tensor | None,
    lse: Tensor,
    totals: Tensor,
    peaks: Tensor,
    rule: Sequence[float],
    scale: float,
    softcap: float,
    dropout: float,
    bias_too: bool,
    coverage_too: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _gradients(query, key, value, bias, bias_too, coverage_too)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, rule, scale, softcap, dropout, _ = inputs
    ctx.save_for_backward(*tensors, *output[3:])
    ctx.settings = rule, scale, softcap, dropout
    ctx.set_materialize_grads(False)


def _differentiate(
    ctx: Any, grad: Tensor | None, *grads: Tensor | None, run: Any = backward
) -> tuple[Tensor | None, ...]:
    query, key, value, bias, *others, lse, totals, peaks = ctx.saved_tensors
    if grad is None:  # only the coverage was used
        grad = _context(query, value).zero_()
    bias_too = ctx.needs_input_grad[3]
    coverage_too = any(ctx.needs_input_grad[6:8]) or any(g is not None for g in grads[:2])
    dq, dk, dv, dbias, dtotal, dpeak = run(
        *(grad, *grads[:2], query, key, value, bias, *others, lse, totals, peaks),
        *(*ctx.settings, bias_too, coverage_too),
    )
    before = (dtotal, dpeak) if any(ctx.needs_input_grad[6:8]) else (None, None)
    return dq, dk, dv, dbias if bias_too else None, None, None, *before, *(None,) * 6


torch.library.register_autograd("dwindle::attention", _differentiate, setup_context=_remember)


class Differentiable(torch.autograd.Function):
    """The operator without torch.library's dispatch, which costs more than a small call; not for compilers."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        output = compute(*inputs)
        _remember(ctx, inputs, output)
        return output[:3]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return _differentiate(ctx, *grads, run=compute_backward)


def _scores(query: Tensor, key: Tensor) -> tuple[int, ...]:
    return (*query.shape[:3], key.shape[2])


def _context(query: Tensor, value: Tensor) -> Tensor:
    return query.new_empty(*query.shape[:3], value.shape[3])


def _state(query: Tensor, *shape: int) -> Tensor:
    return query.new_empty(shape, dtype=torch.promote_types(query.dtype, torch.float32))


def _outputs(
    query: Tensor, key: Tensor, value: Tensor, save: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    b, h, t, s = _scores(query, key)
    out, after, top = _context(query, value), _state(query, b, h, s), _state(query, b, h, s)
    if not save:
        return out, after, top, _state(query, 0), _state(query, 0), _state(query, 0)
    rows = block_rows(t, s)
    between = (b, h, max(-(-t // max(rows, 1)) - 1, 0), s)
    return out, after, top, _state(query, b, h, t), _state(query, *between), _state(query, *between)


def _gradients(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, bias_too: bool, coverage_too: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    dbias = _state(query, *bias.shape) if bias_too and bias is not None else _state(query, 0)
    b, h, _, s = _scores(query, key)
    state = (b, h, s) if coverage_too else (0,)
    dense = [x.new_empty(x.shape) for x in (query, key, value)]
    return dense[0], dense[1], dense[2], dbias, _state(query, *state), _state(query, *state)


def _problem(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    kept: Tensor | None,
    rule: Sequence[float],
    scale: float,
    softcap: float,
    dropout: float,
    seed: Tensor | None,
) -> Problem:
    """The C structure, but for the results. It holds pointers only: the caller keeps the tensors."""
    b, h, t, s = _scores(query, key)
    p = Problem(DTYPES[query.dtype], b, h, key.shape[1], t, s, key.shape[3], value.shape[3])
    p.rows, p.threads = block_rows(t, s), torch.get_num_threads()
    p.q, p.k, p.v = query.data_ptr(), key.data_ptr(), value.data_ptr()
    p.q_stride[:], p.k_stride[:], p.v_stride[:] = query.stride()[:3], key.stride()[:3], value.stride()[:3]
    if bias is not None:
        p.bias, p.bias_stride[:] = bias.data_ptr(), _broadcast(bias)
    if mask is not None:
        p.mask, p.mask_stride[:] = mask.data_ptr(), _broadcast(mask)
    if kept is not None:
        p.kept, p.kept_stride[:] = kept.data_ptr(), _broadcast(kept)
    p.scale, p.softcap, p.dropout = scale, softcap, dropout
    p.seed = int(seed) if seed is not None else 0
    mode, p.s1, p.p1, p.s2, p.p2, detach_gate = rule
    p.mode, p.detach_gate = int(mode), int(detach_gate)
    p.kind1 = _NONE if mode == _PLAIN else _POWER if p.p1 else _LOG
    p.kind2 = _NONE if mode != _DYDIM else _POWER if p.p2 else _LOG
    p.terms1, p.terms2 = _terms(p.p1), _terms(p.p2)
    return p


def _broadcast(x: Tensor) -> tuple[int, ...]:
    """Strides of ``x`` as it is repeated: 0 along dimensions of size 1."""
    return tuple(0 if n == 1 else stride for n, stride in zip(x.shape, x.stride(), strict=True))


@lru_cache(maxsize=64)
def _terms(p: float) -> Any:
    return (ctypes.c_double * TERMS)(*terms(p))


def _pointer(x: Tensor | None) -> int | None:
    return x.data_ptr() if x is not None and x.numel() else None


def _dense_rows(x: Tensor) -> Tensor:
    """The kernel wants the last dimension dense; the others may lie anyhow."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _run(name: str, p: Problem) -> None:
    kernel = library()
    if kernel is None:
        raise RuntimeError("the CPU kernel is not there: use backend='chunked'")
    if getattr(kernel, name)(ctypes.byref(p)):
        raise MemoryError(f"no memory for the tiles of {p.threads} threads of {p.rows} x {p.S}")
