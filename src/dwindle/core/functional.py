"""``attention``: scaled dot-product attention whose weights follow a rule.

The one call for training and decoding, in the style of ``F.scaled_dot_product_attention``. It checks its
input, picks a backend and returns what that computes; all backends give the same numbers. It knows rules and
tensors; nothing of models, caches or padding conventions other than the mask it is given.
"""

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from dwindle.core.backends import chunked, cpu, eager, triton
from dwindle.core.backends.call import Call
from dwindle.core.coverage import Coverage, state_dtype
from dwindle.core.notation import rule as parse
from dwindle.core.rules import Rule

_FEW = 2**17  # weights: calling more operations costs more than what fewer hold in memory
Backend = Literal["cpu", "triton", "chunked", "eager"]


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    rule: Rule | str,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    coverage: Coverage | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
    protected: Tensor | None = None,
    inplace: bool = False,
    backend: Backend | None = None,
) -> tuple[Tensor, Coverage]:
    """softmax(query key^T scale + bias), diminished by ``rule``, times value.

    Args:
        query: (B, H, T, D), the rows of T in decoding order.
        key: (B, Hk, S, D). Fewer heads than the query's are shared by groups of its heads (H / Hk each).
        value: (B, Hk, S, Dv).
        rule: a rule or its notation.
        mask: broadcastable to (B, H, T, S); bool (True: may be attended to) or float (added to the scores).
        bias: broadcastable to (B, H, T, S), added to the scores (T5's positions).
        coverage: what earlier rows left, each (B, H, S); None at the start.
        scale: 1 / sqrt(D) unless given.
        softcap: scores become softcap * tanh(scores / softcap), before bias and mask.
        dropout: probability of dropping a diminished weight. Coverage counts the clean attention.
        protected: bool (B, S) or broadcastable to (B, H, S): positions that keep their plain weight.
        inplace: overwrite the tensors of ``coverage`` with the new one (decoding; no gradients).
        backend: None for the fastest one that does all of this exactly; a name forces it.

    Returns:
        The context (B, H, T, Dv) in the dtype of ``query``, and the coverage after these rows. A row that
        may attend to nothing gives zeros and adds no coverage.
    """
    rule = parse(rule)
    _check(query, key, value, dropout, softcap)
    (b, h, t, d), s = query.shape, key.shape[2]
    scores = (b, h, t, s)
    _check_like("mask", mask, query, scores)
    _check_like("bias", bias, query, scores)
    if mask is not None and mask.dtype != torch.bool:  # a float mask is a bias
        bias, mask = mask if bias is None else bias + mask, None
    call = Call(
        query,
        key,
        value,
        rule,
        mask=None if mask is None else mask.reshape(_padded(mask.shape, 4)),
        bias=None if bias is None else bias.reshape(_padded(bias.shape, 4)).to(state_dtype(query)),
        coverage=_checked_coverage(coverage, rule, query, scores),
        kept=_kept(rule, protected, query, scores),
        scale=1 / math.sqrt(max(d, 1)) if scale is None else float(scale),
        softcap=float(softcap or 0),
        dropout=float(dropout),
    )
    if inplace:
        return _in_place(call, coverage, backend)
    return _run(call, _chosen(call, backend))


def _run(call: Call, backend: Backend) -> tuple[Tensor, Coverage]:
    if backend == "cpu":
        return cpu.attention(call)
    if backend == "triton":
        return triton.attention(call)
    return chunked.attention(call) if backend == "chunked" else eager.attention(call)


def _in_place(call: Call, coverage: Coverage | None, backend: Backend | None) -> tuple[Tensor, Coverage]:
    """The context, with the caller's own coverage moved on."""
    if coverage is None:
        raise ValueError("inplace needs a coverage to overwrite: start with Coverage.none or a first call")
    if call.differentiates():
        raise ValueError("inplace gives no gradients: call it under torch.no_grad()")
    chosen = _chosen(call, backend)
    if chosen == "cpu" and all(x.dtype == call.dtype and x.is_contiguous() for x in coverage):
        return cpu.step(call, coverage), coverage
    context, after = _run(call, chosen)
    coverage.total.copy_(after.total)
    coverage.peak.copy_(after.peak)
    return context, coverage


def _chosen(call: Call, backend: Backend | None) -> Backend:
    """The fastest backend for this call, or the forced one if it can do it."""
    if backend is None:
        if not (call.query.numel() and call.value.numel()):
            return "eager"
        if cpu.objection(call) is None:
            return "cpu"
        if call.query.is_cuda and triton.objection(call) is None:
            return "triton"
        return "eager" if call.query.shape[:3].numel() * call.key.shape[2] <= _FEW else "chunked"
    if backend not in get_args(Backend):
        known = ", ".join(map(repr, get_args(Backend)))
        raise ValueError(f"unknown backend {backend!r}: choose one of {known}, or None for the fastest")
    objection = {"cpu": cpu.objection, "triton": triton.objection}.get(backend, lambda _: None)(call)
    if objection:
        raise ValueError(f"backend {backend!r} cannot do this: {objection}; try backend=None")
    return backend


def _kept(rule: Rule, mask: Tensor | None, query: Tensor, scores: tuple[int, ...]) -> Tensor | None:
    """Protected positions as bool (B | 1, H | 1, S), or None."""
    b, h, _, s = scores
    if mask is not None:
        if mask.dim() == 2:
            mask = mask[:, None, :]  # (B, S) -> (B, 1, S): the same for all heads
        _check_like("protected", mask, query, (b, h, s))
        if mask.dtype != torch.bool:
            raise ValueError(f"protected must be a bool mask, not {mask.dtype}")
    kept = rule.kept(s, query.device, mask)
    return None if kept is None else kept.reshape(_padded(kept.shape, 3)).expand(-1, -1, s)


def _padded(shape: torch.Size, dimensions: int) -> tuple[int, ...]:
    return (1,) * (dimensions - len(shape)) + tuple(shape)


def _checked_coverage(coverage: Coverage | None, rule: Rule, query: Tensor, scores: tuple[int, ...]) -> Coverage | None:
    if coverage is None:
        return None
    b, h, _, s = scores
    checked = coverage.checked((b, 1 if rule.share_heads else h, s), state_dtype(query))
    for x in coverage:
        if x.device != query.device:
            raise ValueError(f"coverage is on {x.device} but query is on {query.device}: move one of them")
    return checked


def _check_like(name: str, x: Tensor | None, query: Tensor, shape: tuple[int, ...]) -> None:
    if x is None:
        return
    fits = x.dim() <= len(shape) and all(n in (1, m) for n, m in zip(reversed(x.shape), reversed(shape), strict=False))
    if not fits:
        raise ValueError(f"{name} has shape {tuple(x.shape)}, which does not broadcast to {shape}")
    if x.device != query.device:
        raise ValueError(f"{name} is on {x.device} but query is on {query.device}: move one of them")
    if x.dtype != torch.bool and not x.dtype.is_floating_point:
        raise ValueError(f"{name} is {x.dtype}: give a bool or floating point tensor")


def _check(query: Tensor, key: Tensor, value: Tensor, dropout: float, softcap: float | None) -> None:
    dtype, device = query.dtype, query.device
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 4:
            raise ValueError(f"{name} must be (B, H, length, D), not {tuple(x.shape)}")
        if x.dtype != dtype:
            raise ValueError(f"{name} is {x.dtype} but query is {dtype}: give all three one dtype")
        if x.device != device:
            raise ValueError(f"{name} is on {x.device} but query is on {device}: move one of them")
    if not dtype.is_floating_point:
        raise ValueError(f"query is {dtype}: attention needs floating point")
    b, h, _, d = query.shape
    bk, hk, s, dk = key.shape
    if (bk, dk) != (b, d) or value.shape[:3] != (b, hk, s) or h % max(hk, 1) or (h and not hk):
        raise ValueError(
            f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} do not fit: "
            "they must be (B, H, T, D), (B, Hk, S, D) and (B, Hk, S, Dv), with H a multiple of Hk"
        )
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be in [0, 1), not {dropout}")
    if softcap is not None and not softcap > 0:
        raise ValueError(f"softcap must be above 0, not {softcap}: leave it out for none")
