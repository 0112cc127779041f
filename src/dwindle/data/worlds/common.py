"""The tools that all worlds share: chance, names made of syllables, and counts of facts.

Chance is the same on every machine and in every version of Python: it uses only
`random.Random.random`, the one method whose sequence the language promises to keep, seeded with
text. Knows no world.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

_ONSETS = ("b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z")
_VOWELS = ("a", "e", "i", "o", "u")
_ENDS = ("l", "n", "r", "s", "t", "x")


class Chance:
    """A source of chance, named by what it is for: equal names, equal draws."""

    def __init__(self, *name: object) -> None:
        self._random = random.Random(" ".join(map(str, name))).random

    def below(self, limit: int) -> int:
        """A whole number from 0 to ``limit`` - 1."""
        return int(self._random() * limit)

    def unit(self, low: float = 0.0) -> float:
        """A number in [``low``, 1)."""
        return low + (1 - low) * self._random()

    def happens(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """``count`` different ones, in random order."""
        left = list(options)
        return [left.pop(self.below(len(left))) for _ in range(count)]


NAMES = len(_ONSETS) ** 2 * len(_VOWELS) ** 2 * len(_ENDS)
"""Number of names of a kind."""


def name(index: int, kind: str) -> str:
    """The name number ``index`` of a kind, such as ``"ravelov"``: different numbers, different
    names. The kind is the ending, so names of two kinds differ too."""
    # A prime step visits every number once, so that names with near numbers do not look alike.
    left, parts = index * 7919 % NAMES, []
    for letters in (_ONSETS, _VOWELS, _ONSETS, _VOWELS, _ENDS):
        left, letter = divmod(left, len(letters))
        parts.append(letters[letter])
    return "".join(parts) + kind


@dataclass(frozen=True)
class Counts:
    """Facts that an output states, leaves out, repeats or invents.

    The facts to state are salient facts of an article, or words of a sentence.
    """

    facts: int
    """Facts that the output should state."""
    omitted: int
    """Facts that it does not state."""
    repeated: int
    """True statements that were made before."""
    invented: int
    """Statements that nothing in the source licenses, near misses among them."""
    strayed: int = 0
    """True statements that should have been left out."""

    @property
    def stated(self) -> int:
        """All statements of the output."""
        return self.facts - self.omitted + self.repeated + self.invented + self.strayed
