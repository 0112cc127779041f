"""Items in batches: as they come, or those of similar length together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of ``size`` items, the last one shorter."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def together(
    items: Sequence[T], size: int, length: Callable[[T], Any], job: Callable[[list[T]], Iterable[R]]
) -> list[R]:
    """The results of ``job``, one for each item, in their order.

    It is given ``size`` items at a time, those of similar ``length`` together, so that little is
    padded.
    """
    order = sorted(range(len(items)), key=lambda n: length(items[n]))
    found: dict[int, R] = {}
    for numbers in batches(order, size):
        found.update(zip(numbers, job([items[n] for n in numbers]), strict=True))
    return [found[n] for n in range(len(items))]
