"""``Kind``: facts about a metric that do not depend on its options.

Its title, which way is better, its unit, how many decimals mean something, whether it takes long.
The reduction of the metric knows which texts of an item it needs.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from dwindle.metrics.table import number

Better = Literal[-1, 0, 1]
HALVES = ("short", "long", "gap")
"""Parts of the items that a value can be of: the half with the shorter sources, the half with the
longer ones, or the value of the second less that of the first."""


@dataclass(frozen=True)
class Kind:
    """One metric without its options, such as ``rouge1``."""

    name: str
    title: str
    better: Better = 0
    """1 if higher is better, -1 if lower is, 0 if neither."""
    unit: str = ""
    """Unit of the value, such as ``%``; empty for a score."""
    decimals: int = 2
    slow: bool = False
    """True if it takes minutes: a report then reads it from a run's scores."""

    def text(self, value: float, sign: bool = False) -> str:
        """A value of this metric as it is printed."""
        return number(value, self.decimals, sign)

    def interval(self, low: float, high: float) -> str:
        return f"{self.text(low)} to {self.text(high)}"

    @property
    def arrow(self) -> str:
        """An arrow up if higher is better, down if lower is; empty if neither."""
        return {1: "↑", -1: "↓", 0: ""}[self.better]


class Name(NamedTuple):
    """A metric's full name in its parts: ``bleu:moses-de/short`` is (bleu, moses-de, short)."""

    kind: str
    option: str = ""
    half: str = ""

    def __str__(self) -> str:
        return (
            self.kind
            + (f":{self.option}" if self.option else "")
            + (f"/{self.half}" if self.half else "")
        )


def split(name: str) -> Name:
    """The parts of a full name. An option may be a path: only the ``HALVES`` are halves."""
    rest, _, half = name.rpartition("/")
    if half not in HALVES:
        rest, half = name, ""
    kind, _, option = rest.partition(":")
    return Name(kind, option, half)
