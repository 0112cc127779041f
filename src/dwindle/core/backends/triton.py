"""Diminishing attention on a GPU: whether the Triton kernels can do a call, and whether they are
right on a device.

The kernels are in triton_kernels.py, triton_launch.py starts them; both import triton and are
imported at the first call only. The first call on a device, in each dtype, compares them with the
eager twin on a small case: kernels that do not compile there, or give other numbers, step aside
with one line on stderr.
"""

import sys
from functools import cache, partial
from importlib.util import find_spec

import torch
from torch import Tensor

from dwindle.core.backends import eager
from dwindle.core.backends.call import (
    UNTRANSFORMED,
    Call,
    generation,
    interpreted,
    kernel_numbers,
)
from dwindle.core.concave import Log, Power
from dwindle.core.coverage import Coverage
from dwindle.core.rules import DyDim
from dwindle.core.transforms import transformed

_LARGEST = 256  # head size
_LARGEST_SINGLE = 64  # of float32 on NVIDIA's tensor cores, whose registers hold no more
# float32 may be tf32
_TOLERANCES = {torch.float32: 5e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}


def objection(call: Call) -> str | None:
    """Reason why the kernels cannot do this call, or None if they can."""
    if find_spec("triton") is None:
        return "the package triton is not installed"
    if not call.query.is_cuda and not interpreted():
        return (
            f"the tensors are on {call.query.device}, and Triton's interpreter is not on "
            "(TRITON_INTERPRET=1)"
        )
    if call.query.dtype not in _TOLERANCES:
        return f"it has no code for {call.query.dtype}"
    if kernel_numbers(call.rule) is None:
        return f"it has no code for the rule {call.rule}"
    if call.scale <= 0:
        return f"it has no code for a scale that is not positive ({call.scale})"
    if max(call.query.shape[3], call.value.shape[3]) > _LARGEST:
        return f"it has no code for heads of more than {_LARGEST}"
    if torch.compiler.is_compiling():
        return "torch.compile cannot look into it"
    if transformed(*call.tensors()):
        return UNTRANSFORMED
    if call.query.is_cuda and not torch.cuda.is_available():
        return "there is no GPU here, the tensors are fake"
    if call.query.is_cuda and torch.version.hip is None:
        exact = torch.get_float32_matmul_precision() == "highest"
        size = max(call.query.shape[3], call.value.shape[3])
        unfit = card_objection(
            generation(call.query.device),
            call.query.dtype,
            size,
            exact,
            call.differentiates(),
            call.rule.renormalise and call.query.shape[2] > 1,
        )
        if unfit is not None:
            return unfit
    return _fault(call.query.device, call.query.dtype)


def card_objection(
    card: int,
    dtype: torch.dtype,
    size: int,
    exact: bool,
    gradients: bool,
    renormalise: bool = False,
) -> str | None:
    """Reason why the kernels do not fit on NVIDIA cards of a generation (8: A100), or None.
    ``exact``: torch wants products of float32 in full; ``renormalise``: the rule divides weights by
    their norm, in a call of several rows. ``make gpu-check`` counts what fits."""
    if card < 8:
        return "Triton has no tensor cores for cards before compute capability 8"
    if dtype != torch.float32:
        return None
    if size > _LARGEST_SINGLE:
        return f"float32 heads of more than {_LARGEST_SINGLE} do not fit into its registers"
    if exact and (gradients or (renormalise and card >= 9)):
        what = "gradients" if gradients else "renormalised weights"
        return (
            f"{what} of float32 in full precision do not fit into its registers "
            '(torch.set_float32_matmul_precision("high") allows tf32)'
        )
    return None


def pays(call: Call) -> bool:
    """On a GPU: the interpreter is for tests."""
    return call.query.is_cuda and call.query.numel() > 0 and call.value.numel() > 0


@cache
def _fault(device: torch.device, dtype: torch.dtype) -> str | None:
    """Reason why the kernels cannot be trusted on this device, said once; None if they can."""
    try:
        difference = _difference(device, dtype)
        fault = (
            None
            if difference < _TOLERANCES[dtype]
            else f"they are off by {difference:.1e} in a small case"
        )
    except Exception as error:  # compilers and drivers raise anything
        fault = (
            f"they fail in a small case: {(str(error).splitlines() or [type(error).__name__])[0]}"
        )
    if fault:
        what = f"the Triton kernels for {dtype} step aside on {device}"
        print(f"dwindle: {what}: {fault}", file=sys.stderr)
    return fault


def _difference(device: torch.device, dtype: torch.dtype) -> float:
    """Of context, coverage and gradients from those of the eager twin in float32, relative to the
    largest of each."""
    generator = torch.Generator().manual_seed(0)
    make = partial(torch.randn, generator=generator)
    tensors = [make(1, 2, n, 16).to(device, dtype) for n in (37, 40, 40)]
    mask = torch.arange(40, device=device).view(1, 1, 1, 40) < 37
    results = []
    for run, precision in ((attention, dtype), (eager.attention, torch.float32)):
        inputs = [x.to(precision).requires_grad_() for x in tensors]
        query, key, value = inputs
        call = Call(
            query,
            key,
            value,
            DyDim(Log(), Power(0.5)),
            mask,
            None,
            None,
            None,
            None,
            None,
            0.5,
            0.0,
            0.0,
        )
        with torch.enable_grad():
            context, after = run(call)
            loss = context.float().square().sum() + after.total.square().sum()
        gradients = torch.autograd.grad(loss, inputs)
        results.append([x.detach().float() for x in (context, *after, *gradients)])
    pairs = zip(*results, strict=True)
    return max(float((found - exact).abs().max() / exact.abs().max()) for found, exact in pairs)


def attention(call: Call) -> tuple[Tensor, Coverage]:
    """The context (B, H, T, Dv) and the coverage after; differentiable once."""
    from dwindle.core.backends import triton_launch

    return triton_launch.attention(call)


def step(call: Call) -> Tensor:
    """The context of one row, with the coverage (dense, float32) moved on in place. No
    gradients."""
    from dwindle.core.backends import triton_launch

    return triton_launch.step(call)
