"""Chance that is the same on every machine and in every version of Python: only
`random.Random.random`, the one method whose sequence the language promises to keep, seeded with
text. And names made of syllables.
"""

import random
from collections.abc import Sequence
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
