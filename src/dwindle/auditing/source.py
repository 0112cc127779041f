"""``ReadSource``: one source as a model reads it, and the parts of it that an output can leave out.

A part is a word of a text, or a fifth of a second of sound. Several positions of the encoder may
belong to one part: it was heard as well as the best of them. Positions of punctuation, padding,
special tokens or silence belong to none.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from dwindle.data.script import Span, within_word


@dataclass(frozen=True)
class Part:
    """From ``start`` to ``end`` (exclusive), in characters or seconds."""

    start: float
    end: float
    name: str = ""
    """The word, which has a usual peak of its own wherever it recurs. Empty for sound."""

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


@dataclass(frozen=True)
class ReadSource:
    """One source. S positions of the encoder, P parts."""

    given: dict[str, Any]
    """Inputs of the model, without a batch dimension."""
    parts: tuple[Part, ...]
    owner: tuple[int, ...]
    """(S,): the part that each position belongs to, or -1."""
    length: float
    """Length of the whole source, in characters or seconds."""
    read: float
    """The length that the model was given; less than ``length`` if the source was cut."""

    def without(self, spans: Sequence[tuple[float, float]]) -> "ReadSource":
        """The same with fewer parts: nothing within these spans, (start, end), can be left out."""
        kept = [
            n
            for n, part in enumerate(self.parts)
            if not any(a <= part.middle < b for a, b in spans)
        ]
        number = {old: new for new, old in enumerate(kept)}
        owner = tuple(number.get(part, -1) for part in self.owner)
        return replace(self, parts=tuple(self.parts[n] for n in kept), owner=owner)

    def cut(self, at: float) -> "ReadSource":
        """The same, read no further than to ``at``."""
        return self if at >= self.read else replace(self.without([(at, self.length)]), read=at)

    def of_parts(self, peaks: Tensor) -> Tensor:
        """(heads, P): peaks of parts, from those of positions (heads, S); S may be padded."""
        owner = torch.tensor(self.owner, dtype=torch.long)
        mine = owner >= 0
        index = owner[mine].expand(peaks.shape[0], -1)
        found = peaks.new_zeros(peaks.shape[0], len(self.parts))
        return found.scatter_reduce(1, index, peaks[:, : len(owner)][:, mine], "amax")


class Reader(Protocol):
    """Feeds sources and outputs of one kind into a model. Spans are counted in ``unit``."""

    unit: str

    def read(self, source: Any) -> ReadSource: ...

    def batch(
        self, sources: Sequence[ReadSource], outputs: Sequence[str]
    ) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """The inputs, the decoder's (B, T) and which of its rows count, (B, T): those that read a
        token of the text."""
        ...

    def write(self, sources: Sequence[Any]) -> list[str]:
        """The model's own outputs."""
        ...

    def join(self, sources: Sequence[Any]) -> tuple[Any, list[tuple[float, float]]]:
        """One source of several, and where each is in it."""
        ...

    def shorten(self, source: Any, rng: random.Random) -> tuple[Any, tuple[float, float]] | None:
        """The source without one word, or without a stretch of that length, and its position."""
        ...

    def join_outputs(self, outputs: Sequence[str]) -> str: ...

    def probe(self) -> list[int]:
        """Tokens of a fixed text, by which a tokenizer is recognised."""
        ...


def words(text: str, pieces: Sequence[Span]) -> tuple[tuple[Part, ...], tuple[int, ...]]:
    """The words of ``text`` and the word of each piece (S,); pieces are (start, end), empty for
    those of no text.

    Pieces within letters and digits are one word, but in scripts without spaces each is its own.
    """
    spans: list[Span] = []
    owner = []
    for start, end in (_trimmed(text, *piece) for piece in pieces):
        goes_on = bool(spans) and start == spans[-1][1] < end and within_word(text, start)
        if not goes_on and not any(c.isalnum() for c in text[start:end]):
            owner.append(-1)
            continue
        if goes_on or (spans and start < spans[-1][1]):
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
        owner.append(len(spans) - 1)
    return tuple(Part(a, b, text[a:b].lower()) for a, b in spans), tuple(owner)


def _trimmed(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
