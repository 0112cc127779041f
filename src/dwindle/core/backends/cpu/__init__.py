"""The C++ kernel for the CPU: its source, its build on first use, and the ``torch.library`` operator.

It does every rule whose functions are Box-Cox, with all options; all masks, biases, dropout, protected positions and
sources inside a prompt; gradients of query, key, value, bias and coverage.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from dwindle.core.backends.call import UNTRANSFORMED, Call, kernel_numbers
from dwindle.core.backends.cpu import op
from dwindle.core.backends.cpu.build import library
from dwindle.core.backends.polynomial import terms
from dwindle.core.constant import constant
from dwindle.core.coverage import Coverage
from dwindle.core.rules import Rule
from dwindle.core.transforms import transformed

_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@constant
def available() -> bool:
    """Whether the kernel is there, building it at the first question."""
    return library() is not None


def objection(call: Call) -> str | None:
    """Why the kernel cannot do this call, or None if it can."""
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
    """Always, where there is anything to do."""
    return call.query.numel() > 0 and call.value.numel() > 0


def attention(call: Call) -> tuple[Tensor, Coverage]:
    """The context (B, H, T, Dv) and the coverage after; differentiable."""
    before = call.coverage or (None, None)
    results = op.attention(*_tensors(call), *before, *_settings(call), call.differentiates())
    return results[0], Coverage(results[1], results[2])


def step(call: Call) -> Tensor:
    """The context, with the coverage (dense, in the right dtype) moved on in place. No gradients."""
    context: Tensor = op.step(*_tensors(call), *call.coverage, *_settings(call))
    return context


def _tensors(call: Call) -> tuple[Tensor | None, ...]:
    return call.query, call.key, call.value, call.bias, call.mask, call.protected, call.source, call.rows


def _settings(call: Call) -> tuple[Any, ...]:
    (_, h, t, _), s = call.query.shape, call.key.shape[2]
    blocks = op.blocks(t, s, h if call.rule.share_heads else 1)
    return call.seed(), with_terms(call.rule), call.scale, call.softcap, call.dropout, blocks


@constant
def with_terms(rule: Rule) -> list[float]:
    """The numbers of a rule, and the polynomials of its functions."""
    return _known(rule)


@lru_cache(maxsize=64)
def _known(rule: Rule) -> list[float]:
    numbers = kernel_numbers(rule)
    if numbers is None:
        raise ValueError(f"the kernel has no code for the rule {rule}")
    options = rule.renormalise, rule.share_heads
    return [*map(float, (*numbers, *options)), *terms(numbers.p1), *terms(numbers.p2)]
