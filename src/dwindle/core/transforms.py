"""Whether torch.func or forward-mode differentiation looks on. The one place that asks torch for private names.

Kernels cannot be looked into: under a transform, what is written in PyTorch is taken instead.
"""

import torch
from torch import Tensor
from torch.autograd import forward_ad


def transformed(*tensors: Tensor | None) -> bool:
    """Whether a call on these is under torch.func (grad, jvp, vmap ...), or one of them carries a tangent."""
    if torch.compiler.is_compiling():
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return True
    if forward_ad._current_level < 0:  # no tangents anywhere: every attention asks, so the answer should be quick
        return False
    return any(x is not None and _tangent(x) is not None for x in tensors)


def _tangent(x: Tensor) -> Tensor | None:
    tangent: Tensor | None = forward_ad.unpack_dual(x).tangent  # type: ignore[no-untyped-call]
    return tangent
