"""Invention, as far as it can be counted without understanding: numbers and names of an output that
its source lacks.

A number is a run of digits with separators inside (``1,200``, ``39.4``, ``5:30``). Commas between
digits do not count, so ``1,200`` is ``1200``. A name is a word with a capital that does not begin a
sentence: lower-cased text has none, and only numbers tell. Each is counted once in an output. Knows
nothing of truth: a number of the source that is used in the wrong place is not found.
"""

import re
from dataclasses import dataclass

from dwindle.metrics.kind import Kind
from dwindle.metrics.score import Metric, made, mean
from dwindle.runfiles.outputs import Item

NUMBERS = Kind("invented-numbers", "numbers not in the source", -1, "an output", 3)
NAMES = Kind("invented-names", "names not in the source", -1, "an output", 3)

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_WORD = re.compile(r"[^\W\d_]+")
_INSIDE = re.compile(r"(?<![.!?:\"“”‘'»(\n])[ \t]+([^\W\d_]+)")


def numbers(text: str) -> set[str]:
    """The numbers of a text, without their thousands' commas."""
    return {number.replace(",", "") for number in _NUMBER.findall(text)}


def names(text: str) -> set[str]:
    """The words with a capital that stand behind another word of their sentence, case-folded."""
    return {word.casefold() for word in _INSIDE.findall(text) if word[0].isupper()}


@dataclass(frozen=True)
class Invented:
    """Counts the numbers and the names of an output that its source does not have."""

    needs: frozenset[str] = frozenset({"source"})

    def row(self, item: Item) -> list[float]:
        source = item.source or ""
        known = {word.casefold() for word in _WORD.findall(source)}
        return [
            len(numbers(item.hypothesis) - numbers(source)),
            len(names(item.hypothesis) - known),
        ]


def metrics(option: str = "") -> list[Metric]:
    """Invented numbers and invented names, as means over outputs."""
    if option:
        raise ValueError(f"invented has no option {option!r}: write invented")
    settings = made(avg="macro", count="distinct")
    return [
        Metric(kind, Invented(), (column,), mean, settings)
        for column, kind in enumerate((NUMBERS, NAMES))
    ]
