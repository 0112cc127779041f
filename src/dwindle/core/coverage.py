"""``Coverage``: what every source position has been given so far, as an explicit value.

A decoder step takes a coverage and returns the next one; nothing is kept on a module. Whoever
reorders the beams reorders the coverage with them. This module knows neither g nor rules.
"""

from collections.abc import Callable
from typing import NamedTuple, Self

import torch
from torch import Tensor


class Moving:
    """Moves the tensors (B, ..., S) of a coverage with the batch. Mixed into tuples of tensors."""

    def reorder(self, beams: Tensor) -> Self:
        """Row i continues row ``beams[i]``, as beam search moves. ``beams``: (B,) of int."""
        return self._each(lambda x: x.index_select(0, beams.to(x.device)))

    def repeat(self, times: int) -> Self:
        """Every row ``times`` times, in place (a a b b): an item fans out into beams or samples."""
        return self._each(lambda x: x.repeat_interleave(times, dim=0))

    def select(self, keep: Tensor) -> Self:
        """Only the rows ``keep``: indices, or a bool mask over the batch."""
        return self._each(lambda x: x[keep.to(x.device)])

    def clone(self) -> Self:
        """The same numbers in tensors of their own."""
        return self._each(Tensor.clone)

    def copy_(self, other: Self) -> None:
        """Overwrite the tensors with those of ``other``."""
        for x, y in zip(self, other, strict=True):  # type: ignore[call-overload]
            x.copy_(y)

    def checked(self, shape: tuple[int, ...], dtype: torch.dtype) -> Self:
        """This coverage in the precision ``dtype``, if its tensors have this shape."""
        for x in self:  # type: ignore[attr-defined]
            if x.shape != shape:
                raise ValueError(
                    f"coverage has shape {tuple(x.shape)}, but this attention needs "
                    f"{tuple(shape)}: was the batch reordered, repeated or cut without it?"
                )
        return self._each(lambda x: x.to(dtype))

    def _each(self, move: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(*(move(x) for x in self))  # type: ignore[attr-defined]


class _Coverage(NamedTuple):
    total: Tensor
    """(B, ..., S): the sum of the attention, c in the paper (section 3.1)."""
    peak: Tensor
    """(B, ..., S): its maximum, P in Eq. 5."""


class Coverage(Moving, _Coverage):
    """Attention that each source position received so far: the sum ``total``, the maximum ``peak``.

    Kept in float32 (float64 for float64 attention) whatever the model computes in: a sum of many
    small terms drifts by percents in bfloat16.

    Example:
        >>> _, coverage = dwindle.Dim(dwindle.Log())(torch.tensor([[0.75, 0.25], [0.5, 0.5]]))
        >>> coverage.total.tolist(), coverage.peak.tolist()
        ([1.25, 0.75], [0.75, 0.5])
    """

    __slots__ = ()

    @classmethod
    def none(cls, attention: Tensor) -> "Coverage":
        """The coverage before any of the rows of ``attention`` (..., T, S): zero."""
        zero = attention.new_zeros(
            attention.shape[:-2] + attention.shape[-1:], dtype=state_dtype(attention)
        )
        # two tensors: whoever moves coverage on in place writes to both
        return cls(zero, zero.clone())


def state_dtype(attention: Tensor) -> torch.dtype:
    """The precision of coverage and of the arithmetic on it: never below float32."""
    return torch.promote_types(attention.dtype, torch.float32)
