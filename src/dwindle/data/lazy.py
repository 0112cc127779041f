"""A sequence whose items are made when they are asked for."""

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class Lazy(Sequence[T]):
    """``make(place)`` for each of ``places``, made when it is asked for."""

    def __init__(self, make: Callable[[int], T], places: Sequence[int]) -> None:
        self._make, self._places = make, places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return Lazy(self._make, self._places[index])
        return self._make(self._places[index])
