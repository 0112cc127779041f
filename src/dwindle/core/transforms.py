"""Questions to torch that need its private names: whether torch.func, forward-mode differentiation
or a recorder looks on, and checks inside compiled graphs.

Kernels cannot be looked into: under a transform, what is written in PyTorch is taken instead.
"""

import torch
from torch import Tensor
from torch.autograd import forward_ad


def transformed(*tensors: Tensor | None) -> bool:
    """True if a call on these is under torch.func (grad, jvp, vmap ...), or one has a tangent."""
    if torch.compiler.is_compiling():
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return True
    # no tangents anywhere: every attention asks, so the answer should be quick
    if forward_ad._current_level < 0:
        return False
    return any(x is not None and _tangent(x) is not None for x in tensors)


def recorded(*tensors: Tensor) -> bool:
    """True if somebody wants to see every operation: a compiler, a tracer, a profiler, a dispatch
    mode (fake tensors, counters), or a tensor that is more than one."""
    if torch.compiler.is_compiling() or torch._C._is_tracing():
        return True
    if torch._C._len_torch_dispatch_stack() or torch._C._autograd._profiler_enabled():
        return True
    return any(type(x).__torch_dispatch__ is not Tensor.__torch_dispatch__ for x in tensors)


def check_in_graph(holds: Tensor, sentence: str) -> None:
    """Raise ``RuntimeError`` with ``sentence`` in a compiled graph where ``holds`` is false."""
    torch._assert_async(holds, sentence)


def _tangent(x: Tensor) -> Tensor | None:
    tangent: Tensor | None = forward_ad.unpack_dual(x).tangent  # type: ignore[no-untyped-call]
    return tangent
