"""Where a summary copies its source: the runs of three words or more that stand in both, and the source's sentences
they come from; and where a text repeats itself. For the reader's eye only; the metrics have their own code. Bounded on
any text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

MOST_PLACES = 32  # looked at for one run: a text of one word repeated would otherwise take quadratic time

_WORD = re.compile(r"\w+")
_END = re.compile(r"[.!?][ \t]+|\n+")


@dataclass(frozen=True)
class Piece:
    """A part of a summary; ``sentence`` is the number of the source sentence it was copied from, if it was."""

    text: str
    sentence: int | None = None


class SourceText:
    """A source that was read once: its sentences, its words without their case, and the sentence of each word.

    It is cut after each newline and after each end mark with a blank; ``sentences`` joined again are the source.
    """

    def __init__(self, text: str) -> None:
        cuts = [0, *(match.end() for match in _END.finditer(text)), len(text)]
        self.sentences = [text[start:end] for start, end in pairwise(cuts) if start < end]
        self._words: list[str] = []
        self._sentence_of: list[int] = []
        for number, sentence in enumerate(self.sentences):
            words = _WORD.findall(sentence.casefold())
            self._words += words
            self._sentence_of += [number] * len(words)

    def pieces(self, summary: str) -> list[Piece]:
        """The summary in parts; joined again, it is the summary. Runs are read from the left, the longest first."""
        found: list[Piece] = []
        end = 0
        for first, last, sentence in self._runs(summary):
            if first > end:
                found.append(Piece(summary[end:first]))
            found.append(Piece(summary[first:last], sentence))
            end = last
        return [*found, Piece(summary[end:])] if end < len(summary) else found

    def _runs(self, summary: str) -> Iterator[tuple[int, int, int]]:
        """Copied runs: where each starts and ends in the summary, in characters, and the sentence it starts in."""
        matches = list(_WORD.finditer(summary))
        words = [match[0].casefold() for match in matches]
        places: dict[tuple[str, ...], list[int]] = {gram: [] for gram in _trigrams(words)}
        for j, gram in enumerate(_trigrams(self._words)):
            if gram in places and len(places[gram]) < MOST_PLACES:
                places[gram].append(j)
        i = 0
        while i < len(words):
            candidates = places.get(tuple(words[i : i + 3]), [])
            length, j = max(((_length(words, self._words, i, j), -j) for j in candidates), default=(0, 0))
            if length:
                yield matches[i].start(), matches[i + length - 1].end(), self._sentence_of[-j]
            i += length or 1


def repeats(text: str) -> list[bool]:
    """For each character of ``text``, whether it is in a run of three words that the text has had before."""
    matches = list(_WORD.finditer(text))
    words = [match[0].casefold() for match in matches]
    seen: set[tuple[str, ...]] = set()
    marks = [False] * len(text)
    for k, gram in enumerate(_trigrams(words)):
        if gram in seen:
            first, last = matches[k].start(), matches[k + 2].end()
            marks[first:last] = [True] * (last - first)
        seen.add(gram)
    return marks


def _trigrams(words: list[str]) -> Iterator[tuple[str, str, str]]:
    return zip(words, words[1:], words[2:], strict=False)


def _length(mine: list[str], theirs: list[str], i: int, j: int) -> int:
    start = i
    while i < len(mine) and j < len(theirs) and mine[i] == theirs[j]:
        i, j = i + 1, j + 1
    return i - start
