"""``constant``: what a compiler may take for a constant, at no cost to those who never compile."""

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def constant(function: F) -> F:
    """Marks a function whose result ``torch.compile`` may compute once and keep.

    ``torch.compiler.assume_constant_result`` does just this, but imports the whole compiler first:
    two seconds at each ``import dwindle``.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
