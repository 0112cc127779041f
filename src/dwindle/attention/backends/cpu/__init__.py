"""The C++ kernel for the CPU: its source, its build on first use, and the ``torch.library`` operator.

It does every rule whose functions are Box-Cox, without ``renormalise`` and ``share_heads``; all masks,
biases, dropout and protected positions; gradients of query, key, value, bias and coverage.
"""

from typing import Any

import torch
from torch import Tensor

from dwindle.attention.backends.call import Call
from dwindle.attention.backends.cpu import op
from dwindle.attention.backends.cpu.build import library
from dwindle.attention.coverage import Coverage


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def available() -> bool:
    """Whether the kernel is there, building it at the first question."""
    return library() is not None


def objection(call: Call) -> str | None:
    """Why the kernel cannot do this call, or None if it can."""
    if call.query.device.type != "cpu":
        return f"the tensors are on {call.query.device}"
    if call.query.dtype not in op.DTYPES:
        return f"it has no code for {call.query.dtype}"
    if call.numbers() is None:
        return f"it has no code for the rule {call.rule}"
    return None if available() else "it is not built (there is a line on stderr that says why)"


def attention(call: Call) -> tuple[Tensor, Coverage]:
    """The context (B, H, T, Dv) and the coverage after; differentiable."""
    save, compiling = call.differentiates(), torch.compiler.is_compiling()
    if not save and not compiling:
        coverage = _own_coverage(call)
        return step(call, coverage), coverage
    run: Any = op.forward if compiling else op.Differentiable.apply
    results = run(*_tensors(call), *(call.coverage or (None, None)), call.seed(), *_settings(call), save)
    return results[0], Coverage(results[1], results[2])


def step(call: Call, coverage: Coverage) -> Tensor:
    """The context, with ``coverage`` (dense, in the right dtype) moved on in place. No gradients."""
    run = op.step if torch.compiler.is_compiling() else op.compute_step
    return run(*_tensors(call), coverage.total, coverage.peak, call.seed(), *_settings(call))


def _own_coverage(call: Call) -> Coverage:
    """A coverage that may be overwritten: a dense copy of the one before, or zero."""
    if call.coverage:
        return Coverage(*(x.clone(memory_format=torch.contiguous_format) for x in call.coverage))
    shape = (*call.query.shape[:2], call.key.shape[2])
    return Coverage(*(call.query.new_zeros(shape, dtype=call.dtype) for _ in range(2)))


def _tensors(call: Call) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
    return call.query, call.key, call.value, call.bias, call.mask, call.kept


def _settings(call: Call) -> tuple[list[float], float, float, float]:
    return call.numbers() or [], call.scale, call.softcap, call.dropout
