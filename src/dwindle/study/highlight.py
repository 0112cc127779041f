"""Where a summary copies its source: the runs of three words or more that stand in both, and the source's sentences
they come from. For the reader's eye only; the metric of copying has its own code. Bounded on any text.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

SHORTEST = 3
MOST_PLACES = 32  # looked at for one run: a text of one word repeated would otherwise take quadratic time

_WORD = re.compile(r"\w+")
_END = re.compile(r"\n+|(?<=[.!?])[ \t]+")


@dataclass(frozen=True)
class Piece:
    """A part of a summary; ``sentence`` is the number of the source sentence it was copied from, if it was."""

    text: str
    sentence: int | None = None


def sentences(source: str) -> list[str]:
    """The source cut after each newline and each end mark with a blank; joined again, it is the source."""
    cuts = [0, *(match.end() for match in _END.finditer(source)), len(source)]
    return [source[start:end] for start, end in pairwise(cuts) if start < end]


def pieces(summary: str, source: str) -> list[Piece]:
    """The summary in parts; joined again, it is the summary. Runs are read from the left, the longest first."""
    found: list[Piece] = []
    end = 0
    starts = _starts(sentences(source))
    for first, last, place in _runs(summary, source):
        if first > end:
            found.append(Piece(summary[end:first]))
        found.append(Piece(summary[first:last], bisect_right(starts, place) - 1))
        end = last
    return [*found, Piece(summary[end:])] if end < len(summary) else found


def _starts(parts: list[str]) -> list[int]:
    starts, at = [], 0
    for part in parts:
        starts.append(at)
        at += len(part)
    return starts


def _runs(summary: str, source: str) -> Iterator[tuple[int, int, int]]:
    """Copied runs: where each starts and ends in the summary, and where it starts in the source, in characters."""
    here, there = list(_WORD.finditer(summary)), list(_WORD.finditer(source))
    mine, theirs = ([word.group().casefold() for word in words] for words in (here, there))
    places: dict[tuple[str, ...], list[int]] = {}
    for j in range(len(theirs) - SHORTEST + 1):
        known = places.setdefault(tuple(theirs[j : j + SHORTEST]), [])
        if len(known) < MOST_PLACES:
            known.append(j)
    i = 0
    while i < len(mine):
        length, j = max(
            ((_length(mine, theirs, i, j), -j) for j in places.get(tuple(mine[i : i + SHORTEST]), [])),
            default=(0, 0),
        )
        if length:
            yield here[i].start(), here[i + length - 1].end(), there[-j].start()
        i += length or 1


def _length(mine: list[str], theirs: list[str], i: int, j: int) -> int:
    start = i
    while i < len(mine) and j < len(theirs) and mine[i] == theirs[j]:
        i, j = i + 1, j + 1
    return i - start
