"""``once``: for a backward pass that cannot be differentiated itself. Knows no attention.

torch's own ``once_differentiable`` says so only where the gradient that comes in wants one itself.
Where it does not, as for a sum, a gradient penalty would be dropped without a word.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

NO_SECOND = "this backend has no second derivative: use backend='eager' for one"
Gradients = tuple[Tensor | None, ...]


def once(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """The same ``backward`` of an autograd function, whose results refuse to be differentiated."""

    @wraps(backward)
    def checked(ctx: Any, *gradients: Tensor | None) -> Gradients:
        with torch.no_grad():
            found = backward(ctx, *gradients)
        if not torch.is_grad_enabled():
            return found
        results: Gradients = _Last.apply(
            *(None if x is None else x.requires_grad_() for x in found)
        )  # type: ignore[no-untyped-call]
        return results

    return checked


class _Last(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *gradients: Tensor | None) -> Gradients:
        return tuple(None if x is None else x.view_as(x) for x in gradients)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> None:
        raise RuntimeError(NO_SECOND)
