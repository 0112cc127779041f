"""``ReadSource``: one source as a model reads it, and the parts of it that an output can leave out.

A part is a word of a text, or a fifth of a second of sound. Several positions of the encoder may belong to one part: it
was heard as well as the best of them. Positions of punctuation, padding, special tokens or silence belong to none.
"""

import random
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

Span = tuple[int, int]
T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """From ``start`` to ``end`` (exclusive), in characters or seconds."""

    start: float
    end: float
    name: str = ""
    """What recurs: a word has a usual peak of its own. Empty for sound."""

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


@dataclass(frozen=True)
class ReadSource:
    """One source. S positions of the encoder, P parts."""

    given: dict[str, Any]
    """What the model takes, without a batch dimension."""
    parts: tuple[Part, ...]
    owner: tuple[int, ...]
    """(S,): the part that each position belongs to, or -1."""
    length: float
    """Of the whole source, in characters or seconds."""
    read: float
    """How far the model was given it; less than ``length`` if the source was cut."""

    def without(self, spans: Sequence[tuple[float, float]]) -> "ReadSource":
        """The same with fewer parts: nothing within these spans, (start, end), can be left out."""
        kept = [n for n, part in enumerate(self.parts) if not any(a <= part.middle < b for a, b in spans)]
        number = {old: new for new, old in enumerate(kept)}
        owner = tuple(number.get(part, -1) for part in self.owner)
        return replace(self, parts=tuple(self.parts[n] for n in kept), owner=owner)

    def of_parts(self, peaks: Tensor) -> Tensor:
        """(heads, P): the peak of each part, from those of positions (heads, S); a batch may have padded S."""
        owner = torch.tensor(self.owner, dtype=torch.long)
        mine = owner >= 0
        index = owner[mine].expand(peaks.shape[0], -1)
        found = peaks.new_zeros(peaks.shape[0], len(self.parts))
        return found.scatter_reduce(1, index, peaks[:, : len(owner)][:, mine], "amax")


class Reader(Protocol):
    """How sources and outputs of one kind go into a model. ``unit`` is what spans are counted in."""

    unit: str

    def read(self, source: Any) -> ReadSource: ...

    def batch(self, sources: Sequence[ReadSource], outputs: Sequence[str]) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """The inputs, the decoder's (B, T) and which of its rows count, (B, T): those that read a token of the text."""
        ...

    def write(self, sources: Sequence[Any]) -> list[str]:
        """The model's own outputs."""
        ...

    def join(self, sources: Sequence[Any]) -> tuple[Any, list[tuple[float, float]]]:
        """One source of several, and where each is in it."""
        ...

    def shorten(self, source: Any, rng: random.Random) -> tuple[Any, tuple[float, float]] | None:
        """The source without one of its words, or without a stretch as long as a word, and where that was."""
        ...

    def join_outputs(self, outputs: Sequence[str]) -> str: ...

    def probe(self) -> list[int]:
        """How a fixed text is cut: tells one tokenizer from another."""
        ...


def words(text: str, pieces: Sequence[Span]) -> tuple[tuple[Part, ...], tuple[int, ...]]:
    """The words of ``text`` and the word of each piece (S,); pieces are (start, end), empty for those of no text.

    Pieces within letters and digits are one word, but in scripts without spaces each is its own.
    """
    spans: list[Span] = []
    owner = []
    for start, end in (_trimmed(text, *piece) for piece in pieces):
        if not any(c.isalnum() for c in text[start:end]):
            owner.append(-1)
            continue
        if spans and (start < spans[-1][1] or (start == spans[-1][1] and _goes_on(text, start))):
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
        owner.append(len(spans) - 1)
    return tuple(Part(a, b, text[a:b].lower()) for a, b in spans), tuple(owner)


def is_unspaced(text: str) -> bool:
    """Whether a text ends in a script that puts no spaces between words."""
    last = next((c for c in reversed(text) if c.isalpha()), "")
    return bool(last) and unicodedata.name(last, "").split(" ")[0] in _UNSPACED


_UNSPACED = {"CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"}


def _goes_on(text: str, at: int) -> bool:
    """Whether the characters before and at a place are of one word."""
    around = text[at - 1], text[at]
    return all(c.isalnum() and not is_unspaced(c) for c in around)


def _trimmed(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of ``size`` items, the last one shorter."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
