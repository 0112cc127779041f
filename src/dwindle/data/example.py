"""One example of a corpus, the names of its splits, and a sequence of examples that are made when
they are asked for: what every reader gives."""

from __future__ import annotations  # only image corpora need numpy

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

if TYPE_CHECKING:
    from dwindle.data.regions import Regions

T = TypeVar("T")
Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")


@dataclass(frozen=True)
class Example:
    """A source and what people wrote for it. A newline inside a text separates sentences.

    ``gold`` is what a world knows of its own example: plain JSON, its ``"world"`` the world's name.
    ``image`` is where an image's region features are; the source is then the image's name.
    """

    id: str
    source: str
    references: tuple[str, ...]
    gold: dict[str, Any] | None = None
    image: Regions | None = None

    @property
    def target(self) -> str:
        """The text that a model is trained to write."""
        return self.references[0]

    @property
    def input(self) -> Any:
        """The input of a codec: the source text, or the region features (R, D), read when they
        become an array."""
        return self.source if self.image is None else self.image


class Lazy(Sequence[T]):
    """``make(place)`` for each of ``places``, made when it is asked for.

    ``contents`` digests all that they are made from, where that is quicker than making them.
    """

    def __init__(
        self,
        make: Callable[[int], T],
        places: Sequence[int],
        contents: Callable[[], str] | None = None,
    ) -> None:
        self._make, self._places, self.contents = make, places, contents

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
