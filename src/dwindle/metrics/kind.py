"""What a metric knows of itself, whatever its options: its title, which way is better, its unit, how many decimals
mean something, whether it takes long. What it needs of an item is known by its reduction.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from dwindle.metrics.numbers import number

Better = Literal[-1, 0, 1]
HALVES = ("short", "long", "gap")
"""What a metric can be of instead of all items: the half with the shorter sources, the other, or the second less the
first."""


@dataclass(frozen=True)
class Kind:
    """One metric without its options, such as ``rouge1``."""

    name: str
    title: str
    better: Better = 0
    """1: higher is better. -1: lower is. 0: neither can be said."""
    unit: str = ""
    """Empty for a score."""
    decimals: int = 2
    slow: bool = False
    """Whether it takes minutes: a report then reads it from a run's scores and does not make it again."""

    def text(self, value: float, sign: bool = False) -> str:
        """A value of this metric as it is printed."""
        return number(value, self.decimals, sign)

    def interval(self, low: float, high: float) -> str:
        return f"{self.text(low)} to {self.text(high)}"

    @property
    def arrow(self) -> str:
        """Points to the better side; empty where there is none."""
        return {1: "↑", -1: "↓", 0: ""}[self.better]


class Name(NamedTuple):
    """A metric's full name in its parts: ``bleu:moses-de/short`` is (bleu, moses-de, short)."""

    kind: str
    option: str = ""
    half: str = ""

    def __str__(self) -> str:
        return self.kind + (f":{self.option}" if self.option else "") + (f"/{self.half}" if self.half else "")


def split(name: str) -> Name:
    """The parts of a full name. An option may be a path: only the ``HALVES`` are halves."""
    rest, _, half = name.rpartition("/")
    if half not in HALVES:
        rest, half = name, ""
    kind, _, option = rest.partition(":")
    return Name(kind, option, half)
