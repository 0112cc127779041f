"""Finds what a summary copies from its source (runs of three words or more that stand in both, and
the source's sentences they come from) and what a text repeats. For the reader's eye only; the
metrics have their own code. Bounded on any text.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dwindle.data.script import sentence_spans, word_spans, words

# looked at for one run: a text of one word repeated would otherwise take quadratic time
MOST_PLACES = 32


@dataclass(frozen=True)
class Piece:
    """A part of a summary; ``sentence`` is the number of the source sentence it copies, if any."""

    text: str
    sentence: int | None = None


class SourceText:
    """A source that was read once: its sentences, its lower-cased words, the sentence of each.

    It is cut after each newline and after each sentence of a line; ``sentences`` joined again are
    the source.
    """

    def __init__(self, text: str) -> None:
        lines = text.splitlines(keepends=True)
        self.sentences = [
            line[a:b] for line in lines for a, b in sentence_spans(line) or [(0, len(line))]
        ]
        self._words: list[str] = []
        self._sentence_of: list[int] = []
        for number, sentence in enumerate(self.sentences):
            found = words(sentence)
            self._words += found
            self._sentence_of += [number] * len(found)

    def pieces(self, summary: str) -> list[Piece]:
        """The summary in parts, without loss. Runs are read from the left, the longest first."""
        found: list[Piece] = []
        end = 0
        for first, last, sentence in self._runs(summary):
            if first > end:
                found.append(Piece(summary[end:first]))
            found.append(Piece(summary[first:last], sentence))
            end = last
        return [*found, Piece(summary[end:])] if end < len(summary) else found

    def _runs(self, summary: str) -> Iterator[tuple[int, int, int]]:
        """Copied runs: where each starts and ends in the summary, in characters, and the sentence
        it starts in."""
        spans = word_spans(summary)
        mine = [summary[first:last].casefold() for first, last in spans]
        places: dict[tuple[str, ...], list[int]] = {gram: [] for gram in _trigrams(mine)}
        for j, gram in enumerate(_trigrams(self._words)):
            if gram in places and len(places[gram]) < MOST_PLACES:
                places[gram].append(j)
        i = 0
        while i < len(mine):
            candidates = places.get(tuple(mine[i : i + 3]), [])
            length, j = max(
                ((_length(mine, self._words, i, j), -j) for j in candidates), default=(0, 0)
            )
            if length:
                yield spans[i][0], spans[i + length - 1][1], self._sentence_of[-j]
            i += length or 1


def repeats(text: str) -> list[bool]:
    """For each character of ``text``, whether it is in a repeated run of three words."""
    spans = word_spans(text)
    seen: set[tuple[str, ...]] = set()
    marks = [False] * len(text)
    for k, gram in enumerate(_trigrams([text[first:last].casefold() for first, last in spans])):
        if gram in seen:
            first, last = spans[k][0], spans[k + 2][1]
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
