"""``attention``: scaled dot-product attention whose weights follow a rule.

The one call for training and decoding, in the style of ``F.scaled_dot_product_attention``. It
checks its input, picks a backend and returns what that computes; all backends give the same
numbers. It knows rules and tensors; nothing of models, caches or padding conventions other than the
mask it is given.
"""

import math
import os
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from dwindle.core.backends import chunked, cpu, eager, fastest, triton
from dwindle.core.backends.call import Backend, Call
from dwindle.core.coverage import state_dtype
from dwindle.core.notation import row_rule
from dwindle.core.notation import rule as parse
from dwindle.core.rules import Rule

BACKENDS: dict[str, Backend] = {"cpu": cpu, "triton": triton, "chunked": chunked, "eager": eager}
"""By name, the fastest first."""


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    rule: Rule | str,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    coverage: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
    protected: Tensor | None = None,
    source: Tensor | None = None,
    rows: Tensor | None = None,
    inplace: bool = False,
    backend: str | None = None,
) -> tuple[Tensor, Any]:
    """softmax(query key^T scale + bias), diminished by ``rule``, times value.

    Args:
        query: (B, H, T, D), the rows of T in decoding order.
        key: (B, Hk, S, D). Fewer heads than the query's are shared by groups of its heads (H / Hk
            each).
        value: (B, Hk, S, Dv).
        rule: a rule or its notation.
        mask: broadcastable to (B, H, T, S); bool (True: may be attended to) or float (added to the
            scores).
        bias: broadcastable to (B, H, T, S), added to the scores (T5's positions).
        coverage: what earlier rows left, a ``Coverage`` of (B, H, P); None at the start. P is S
            unless ``source`` is given, and there is one head with ``share_heads``.
        scale: 1 / sqrt(D) unless given.
        softcap: scores become softcap * tanh(scores / softcap), before bias and mask.
        dropout: probability of dropping a diminished weight. Coverage counts the clean attention.
        protected: bool (B, P) or broadcastable to (B, H, P): positions that keep their plain
            weight.
        source: bool (B, P) with P <= S: the source among the first P positions, where not all S are
            (a document inside a prompt). What is not source keeps its plain weight and has no
            coverage.
        rows: bool (B, T): the rows that feel coverage and add to it, where not all do (those after
            the document).
        inplace: overwrite the tensors of ``coverage`` with the new one (decoding; no gradients).
        backend: None for the fastest one that does all of this exactly (on a GPU it is found out by
            timing them at the first call of a kind), or that of the environment variable
            DWINDLE_BACKEND; a name forces it.

    Returns:
        The context (B, H, T, Dv) in the dtype of ``query``, and the coverage after these rows. A
        row that may attend to nothing gives zeros and adds no coverage.

    Example:
        >>> q, k, v = torch.randn(1, 2, 5, 8), torch.randn(1, 2, 7, 8), torch.randn(1, 2, 7, 8)
        >>> context, coverage = dwindle.attention(q, k, v, rule="dim:log")
        >>> context.shape, coverage.total.shape
        (torch.Size([1, 2, 5, 8]), torch.Size([1, 2, 7]))
    """
    options = {
        "mask": mask,
        "bias": bias,
        "coverage": coverage,
        "protected": protected,
        "source": source,
        "rows": rows,
    }
    call = checked_call(
        query, key, value, rule=rule, scale=scale, softcap=softcap, dropout=dropout, **options
    )
    chosen = _chosen(call, backend)
    return _in_place(call, coverage, chosen) if inplace else BACKENDS[chosen].attention(call)


def checked_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    rule: Rule | str,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    coverage: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
    protected: Tensor | None = None,
    source: Tensor | None = None,
    rows: Tensor | None = None,
) -> Call:
    """The arguments of ``attention``, checked, as backends take them."""
    rule = parse(rule) if source is None and rows is None else row_rule(rule)
    _check(query, key, value, dropout, softcap)
    (b, h, t, d), s = query.shape, key.shape[2]
    scores = (b, h, t, s)
    _check_like("mask", mask, query, scores)
    _check_like("bias", bias, query, scores)
    _check_flags("source", source, query, (b, s))
    _check_flags("rows", rows, query, (b, t))
    if mask is not None and mask.dtype != torch.bool:  # a float mask is a bias
        bias, mask = mask if bias is None else bias + mask, None
    covered = s if source is None else source.shape[1]
    return Call(
        query,
        key,
        value,
        rule,
        mask=None if mask is None else mask.reshape(_padded(mask.shape, 4)),
        bias=None if bias is None else bias.reshape(_padded(bias.shape, 4)).to(state_dtype(query)),
        coverage=_checked_coverage(coverage, query, (b, 1 if rule.share_heads else h, covered)),
        protected=_protected(rule, protected, query, (b, h, covered)),
        source=source,
        rows=rows,
        scale=1 / math.sqrt(max(d, 1)) if scale is None else float(scale),
        softcap=float(softcap or 0),
        dropout=float(dropout),
    )


def _in_place(call: Call, coverage: Any, chosen: str) -> tuple[Tensor, Any]:
    """The context, with the caller's own coverage moved on."""
    if coverage is None:
        raise ValueError(
            "inplace needs a coverage to overwrite: start with Coverage.none or a first call"
        )
    if _share_memory(coverage):
        raise ValueError(
            "inplace needs memory of its own for every number of the coverage, but some share it: "
            "clone()"
        )
    if call.differentiates():
        raise ValueError("inplace gives no gradients: call it under torch.no_grad()")
    if all(x.dtype == call.dtype and x.is_contiguous() for x in coverage):
        if chosen == "cpu":
            return cpu.step(call), coverage
        if (
            chosen == "triton"
            and call.query.shape[2] == 1
            and call.query.numel()
            and call.value.numel()
        ):
            return triton.step(call), coverage
    context, after = BACKENDS[chosen].attention(call)
    coverage.copy_(after)
    return context, coverage


def _share_memory(coverage: Any) -> bool:
    """True if a number of the coverage lies where another one does. (Compilers see no addresses:
    there, the same tensor twice.)"""
    if torch.compiler.is_compiling():
        return coverage[0] is coverage[1]
    if any(
        n > 1 and not step for x in coverage for n, step in zip(x.shape, x.stride(), strict=True)
    ):
        return True  # one number, repeated
    return any(_overlap(x, y) for x, y in combinations(coverage, 2))


def _overlap(x: Tensor, y: Tensor) -> bool:
    """True if two tensors have a number in common. This is exact, for views of one storage may well
    lie side by side."""
    storage = x.untyped_storage()
    if not x.numel() or storage.data_ptr() != y.untyped_storage().data_ptr():
        return False
    if x.dtype != y.dtype:
        return True
    taken = torch.zeros(storage.nbytes() // x.element_size(), dtype=torch.bool)
    taken.as_strided(x.shape, x.stride(), x.storage_offset()).fill_(True)
    return bool(taken.as_strided(y.shape, y.stride(), y.storage_offset()).any())


def _chosen(call: Call, name: str | None) -> str:
    """The fastest backend for this call, or the named one if it can do it."""
    name = name or os.environ.get("DWINDLE_BACKEND") or None
    if name is None and call.query.is_cuda:
        return fastest.fastest(call, candidates(call))
    if name is None:
        return next(
            n
            for n, backend in BACKENDS.items()
            if backend.objection(call) is None and backend.pays(call)
        )
    if name not in BACKENDS:
        known = ", ".join(map(repr, BACKENDS))
        raise ValueError(
            f"unknown backend {name!r}: choose one of {known}, or None for the fastest"
        )
    objection = BACKENDS[name].objection(call)
    if objection:
        raise ValueError(f"backend {name!r} cannot do this: {objection}; try backend=None")
    return name


def candidates(call: Call) -> dict[str, Backend]:
    """The backends that can do a call."""
    return {name: backend for name, backend in BACKENDS.items() if backend.objection(call) is None}


def _protected(
    rule: Rule, mask: Tensor | None, query: Tensor, shape: tuple[int, int, int]
) -> Tensor | None:
    """Protected positions as bool (B | 1, H | 1, P), or None. ``shape``: (B, H, P)."""
    positions = shape[2]
    if mask is not None:
        if mask.dim() == 2:
            mask = mask[:, None, :]  # (B, P) -> (B, 1, P): the same for all heads
        _check_like("protected", mask, query, shape)
        if mask.dtype != torch.bool:
            raise ValueError(f"protected must be a bool mask, not {mask.dtype}")
    found = rule.protected(positions, query.device, mask)
    return (
        None if found is None else found.reshape(_padded(found.shape, 3)).expand(-1, -1, positions)
    )


def _padded(shape: torch.Size, dimensions: int) -> tuple[int, ...]:
    return (1,) * (dimensions - len(shape)) + tuple(shape)


def _checked_coverage(coverage: Any, query: Tensor, shape: tuple[int, int, int]) -> Any:
    if coverage is None:
        return None
    for x in coverage:
        if x.device != query.device:
            raise ValueError(
                f"coverage is on {x.device} but query is on {query.device}: move one of them"
            )
    return coverage.checked(shape, state_dtype(query))


def _check_flags(name: str, x: Tensor | None, query: Tensor, shape: tuple[int, int]) -> None:
    """Check a mask of items and positions, or items and rows; a source may be shorter."""
    if x is None:
        return
    long_enough = x.dim() == 2 and (
        x.shape[1] == shape[1] or (name == "source" and x.shape[1] < shape[1])
    )
    if x.dtype != torch.bool or not long_enough or x.shape[0] not in (1, shape[0]):
        raise ValueError(
            f"{name} must be a bool mask of shape {shape}, not {x.dtype} of {tuple(x.shape)}"
        )
    if x.device != query.device:
        raise ValueError(
            f"{name} is on {x.device} but query is on {query.device}: move one of them"
        )


def _check_like(name: str, x: Tensor | None, query: Tensor, shape: tuple[int, ...]) -> None:
    if x is None:
        return
    fits = x.dim() <= len(shape) and all(
        n in (1, m) for n, m in zip(reversed(x.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise ValueError(f"{name} has shape {tuple(x.shape)}, which does not broadcast to {shape}")
    if x.device != query.device:
        raise ValueError(
            f"{name} is on {x.device} but query is on {query.device}: move one of them"
        )
    if x.dtype != torch.bool and not x.dtype.is_floating_point:
        raise ValueError(f"{name} is {x.dtype}: give a bool or floating point tensor")


def _check(
    query: Tensor, key: Tensor, value: Tensor, dropout: float, softcap: float | None
) -> None:
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
            f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} "
            "do not fit: "
            "they must be (B, H, T, D), (B, Hk, S, D) and (B, Hk, S, Dv), with H a multiple of Hk"
        )
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be in [0, 1), not {dropout}")
    if softcap is not None and not 0 < softcap < math.inf:
        raise ValueError(
            f"softcap must be above 0 and finite, not {softcap}: leave it out for none"
        )
