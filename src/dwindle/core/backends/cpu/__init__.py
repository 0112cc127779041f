"""The C++ kernel for the CPU (``native/``) as a backend, and its ``torch.library`` operators.

It does every rule whose functions are Box-Cox, with all options; all masks, biases, dropout,
protected positions and sources inside a prompt; gradients of query, key, value, bias and coverage.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from dwindle.core.backends.call import UNTRANSFORMED, Call, kernel_numbers
from dwindle.core.backends.cpu import op
from dwindle.core.backends.polynomial import terms
from dwindle.core.constant import constant
from dwindle.core.coverage import Coverage
from dwindle.core.rules import Rule
from dwindle.core.transforms import recorded, transformed
from dwindle.native.functions import KERNEL

_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@constant
def available() -> bool:
    """True if the kernel is there; built at the first question if no wheel brought it."""
    return KERNEL.available


def objection(call: Call) -> str | None:
    """Reason why the kernel cannot do this call, or None if it can."""
    if not call.query.is_cpu:
        return f"the tensors are on {call.query.device}"
    if call.query.dtype not in _DTYPES:
        return f"it has no code for {call.query.dtype}"
    if kernel_numbers(call.rule) is None:
        return f"it has no code for the rule {call.rule}"
    if transformed(*call.tensors()):
        return UNTRANSFORMED
    return None if available() else "it is not built (there is a line on stderr that says why)"


def pays(call: Call) -> bool:
    """True wherever there is anything to compute."""
    return call.query.numel() > 0 and call.value.numel() > 0


def attention(call: Call) -> tuple[Tensor, Coverage]:
    """The context (B, H, T, Dv) and the coverage after; differentiable."""
    before = call.coverage or (None, None)
    differentiates = call.differentiates()
    run: Any = op.differentiable if differentiates else op.compute
    if recorded(call.query, call.key, call.value):
        run = op.attention
    results = run(*_tensors(call), *before, *_settings(call), differentiates)
    return results[0], Coverage(results[1], results[2])


def step(call: Call) -> Tensor:
    """The context, with the coverage (dense, in the right dtype) moved on in place. No
    gradients."""
    run: Any = op.step if recorded(call.query, call.key, call.value) else op.move
    context: Tensor = run(*_tensors(call), *call.coverage, *_settings(call))
    return context


def _tensors(call: Call) -> tuple[Tensor | None, ...]:
    return (
        call.query,
        call.key,
        call.value,
        call.bias,
        call.mask,
        call.protected,
        call.source,
        call.rows,
    )


def _settings(call: Call) -> tuple[Any, ...]:
    (_, h, t, _), s = call.query.shape, call.key.shape[2]
    blocks = op.blocks(t, s, h if call.rule.share_heads else 1)
    return call.seed(), with_terms(call.rule), call.scale, call.softcap, call.dropout, blocks


@constant
def with_terms(rule: Rule) -> tuple[float, ...]:
    """The numbers of a rule as C++ reads them (``vocabulary.RULE``), and the polynomials of its
    functions."""
    return _known(rule)


@lru_cache(maxsize=64)
def _known(rule: Rule) -> tuple[float, ...]:
    numbers = kernel_numbers(rule)
    if numbers is None:
        raise ValueError(f"the kernel has no code for the rule {rule}")
    told = *numbers, rule.renormalise, rule.share_heads, *numbers.kinds
    return *map(float, told), *terms(numbers.p1), *terms(numbers.p2)
