"""Diminishing attention on a GPU: the Triton kernels of triton_kernels.py behind an autograd function.

A GPU wants more parallelism than batch x heads, so each program takes a block of *source* positions and walks
all target rows, carrying its coverage; sums over a row (context, gradient of q) meet by atomic additions, and
the norms of the rows come from a pass before. Triton is imported at the first call only.

The first call on a device compares them with the eager twin on a small case: kernels that do not compile there, or
give other numbers, step aside with one line on stderr.
"""

import os
import sys
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from dwindle.core.backends import eager
from dwindle.core.backends.call import UNTRANSFORMED, Call, kernel_numbers
from dwindle.core.backends.once import once
from dwindle.core.concave import Log, Power
from dwindle.core.constant import constant
from dwindle.core.coverage import Coverage
from dwindle.core.rules import DyDim
from dwindle.core.transforms import transformed

_BLOCK = 32  # target rows, and source positions, of a tile
_LARGEST = 256  # head size
_TOLERANCE = 1e-3


def objection(call: Call) -> str | None:
    """Why the kernels cannot do this call, or None if they can."""
    if find_spec("triton") is None:
        return "the package triton is not installed"
    if not call.query.is_cuda and not _interpreted():
        return f"the tensors are on {call.query.device}, and Triton's interpreter is not on (TRITON_INTERPRET=1)"
    if call.query.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"it has no code for {call.query.dtype}"
    if kernel_numbers(call.rule) is None or call.rule.renormalise or call.rule.share_heads:
        return f"it has no code for the rule {call.rule}"
    if call.felt is not None:
        return "it has no code for a source inside a prompt"
    if max(call.query.shape[3], call.value.shape[3]) > _LARGEST:
        return f"it has no code for heads of more than {_LARGEST}"
    if transformed(*call.tensors()):
        return UNTRANSFORMED
    return _fault(call.query.device)


def pays(call: Call) -> bool:
    """On a GPU: the interpreter is for tests."""
    return call.query.is_cuda and call.query.numel() > 0 and call.value.numel() > 0


@cache
def _interpreted() -> bool:
    """As Triton of any version reads it."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "y", "yes", "on", "true")


@constant
def _fault(device: torch.device) -> str | None:
    """Why the kernels cannot be trusted on this device, said once; None if they can."""
    return _found_fault(device)


@cache
def _found_fault(device: torch.device) -> str | None:
    try:
        difference = _difference(device)
        fault = None if difference < _TOLERANCE else f"they are off by {difference:.1e} in a small case"
    except Exception as error:  # compilers and drivers raise anything
        fault = f"they fail in a small case: {(str(error).splitlines() or [type(error).__name__])[0]}"
    if fault:
        print(f"dwindle: the Triton kernels step aside on {device}: {fault}", file=sys.stderr)
    return fault


def _difference(device: torch.device) -> float:
    """Of context, coverage and gradients from those of the eager twin, relative to the largest number of each."""
    generator = torch.Generator().manual_seed(0)
    make = partial(torch.randn, generator=generator)
    query, key, value = (make(1, 2, n, 16).to(device).requires_grad_() for n in (_BLOCK + 5, 40, 40))
    mask = torch.arange(40, device=device).view(1, 1, 1, 40) < 37
    call = Call(query, key, value, DyDim(Log(), Power(0.5)), mask, None, None, None, None, None, 0.5, 0.0, 0.0)
    results = []
    for run in (attention, eager.attention):
        with torch.enable_grad():
            context, after = run(call)
            loss = context.square().sum() + after.total.square().sum()
        gradients = torch.autograd.grad(loss, (query, key, value))
        results.append([x.detach() for x in (context, *after, *gradients)])
    pairs = zip(*results, strict=True)
    return max(float((found - exact).abs().max() / exact.abs().max()) for found, exact in pairs)


def attention(call: Call) -> tuple[Tensor, Coverage]:
    """The context (B, H, T, Dv) and the coverage after; differentiable once."""
    b, h, _, _ = call.query.shape
    zero = call.query.new_zeros((b, h, call.key.shape[2]), dtype=torch.float32)
    before = call.coverage or (zero, zero)
    seed = call.seed()
    number = int(seed) % 2**31 if seed is not None else 0
    context, total, peak = _Fused.apply(  # type: ignore[no-untyped-call]
        call, number, call.query, call.key, call.value, call.bias, *before
    )
    return context, Coverage(total, peak)


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
        from dwindle.core.backends import triton_kernels as kernels

        settings, common = _arguments(call, seed, query, key, value, bias)
        b, h, t = query.shape[:3]
        s, blocks = key.shape[2], -(-t // _BLOCK)
        norms = query.new_empty((b, h, t, 2), dtype=torch.float32)
        context = query.new_zeros((b, h, t, value.shape[3]), dtype=torch.float32)
        after = _dense(total), _dense(peak)
        between = [query.new_empty((b, h, blocks, s), dtype=torch.float32) for _ in range(2)]
        kernels.norms[b * h, blocks](*common, norms, **settings)
        kernels.forward[b * h, -(-s // _BLOCK)](*common, norms, context, *after, *between, **settings)
        ctx.save_for_backward(query, key, value, bias, norms, *between)
        ctx.call, ctx.seed = call, seed
        ctx.set_materialize_grads(False)
        return context.to(query.dtype), *after

    @staticmethod
    @once
    def backward(ctx: Any, grad: Tensor | None, *later: Tensor | None) -> tuple[Tensor | None, ...]:
        from dwindle.core.backends import triton_kernels as kernels

        query, key, value, bias, norms, *between = ctx.saved_tensors
        settings, common = _arguments(ctx.call, ctx.seed, query, key, value, bias)
        b, h, t = query.shape[:3]
        s = key.shape[2]
        if grad is None:
            grad = query.new_zeros((b, h, t, value.shape[3]))
        zeros = [x.new_zeros(x.shape, dtype=torch.float32) for x in (query, key, value)]
        dbias = query.new_zeros((1,), dtype=torch.float32) if bias is None else torch.zeros_like(bias).contiguous()
        dots = norms.new_zeros((b, h, t))
        states = [norms.new_zeros((b, h, s)) if g is None else _dense(g) for g in later]
        for last in (False, True):  # first the sums over rows, then, with them, the gradients of the scores
            kernels.backward[b * h, -(-s // _BLOCK)](
                *(*common, norms, *between, grad.contiguous(), *zeros, dbias, dots),
                *(*(x.clone() for x in states[:2]), *states),
                *(_strides(dbias) if bias is not None else (0,) * 4),
                LAST=last,
                BIAS_GRADIENT=bias is not None and ctx.needs_input_grad[5],
                **settings,
            )
        dq, dk, dv = (g.to(x.dtype) for g, x in zip(zeros, (query, key, value), strict=True))
        return None, None, dq, dk, dv, None if bias is None else dbias, *states


def _dense(state: Tensor) -> Tensor:
    """A copy to be overwritten, as the kernels expect it."""
    return state.clone(memory_format=torch.contiguous_format)


def _arguments(
    call: Call, seed: int, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None
) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """What all kernels take: settings that are compiled in, and tensors with their strides."""
    known = kernel_numbers(call.rule)
    if known is None:
        raise ValueError(f"the kernels have no code for the rule {call.rule}")
    functions, s1, p1, s2, p2, detach_gate = known
    from dwindle.core.backends.polynomial import terms

    coefficients = torch.tensor([terms(p1), terms(p2)], dtype=torch.float32, device=query.device)
    none = query.new_empty(1)
    settings = {
        "MODE": functions,
        "LOG1": p1 == 0,
        "LOG2": p2 == 0,
        "DETACH": detach_gate,
        "BIAS": bias is not None,
        "MASK": call.mask is not None,
        "PROTECTED": call.protected is not None,
        "SOFTCAP": call.softcap > 0,
        "DROPOUT": call.dropout > 0,
        "BLOCK": _BLOCK,
        "WIDE": max(16, 1 << (query.shape[3] - 1).bit_length()),
        "WIDE_V": max(16, 1 << (value.shape[3] - 1).bit_length()),
        "EXACT": "ieee",
    }
    tensors = []
    for x in (query, key, value, bias, call.mask, call.protected):
        tensors += [none if x is None else x, *(_strides(x) if x is not None else (0,) * 4)]
    sizes = (query.shape[1], key.shape[1], query.shape[2], key.shape[2], query.shape[3], value.shape[3])
    scalars = (call.scale, call.softcap or 1.0, call.dropout, seed, s1, p1, s2, p2)
    return settings, (*tensors, coefficients, *sizes, *scalars)


def _strides(x: Tensor) -> tuple[int, ...]:
    """Four strides, 0 along dimensions that are repeated; (B, H, S) has none for rows."""
    strides = [0 if n == 1 else stride for n, stride in zip(x.shape, x.stride(), strict=True)]
    return (*strides[:2], 0, strides[2]) if x.dim() == 3 else tuple(strides)
