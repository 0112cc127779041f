"""What a study asks: which items, in which order, which summary on which side. Pure: files' items in, a design out.

Every draw is a hash of the seed and of what is drawn for, so a design depends on nothing else: not on the order of
lines, not on the version of Python; and a study of 500 items holds the 100 items of the study with the same seed.
Knows nothing of databases, raters or pages.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dwindle.folder.outputs import Item, Outputs, same_items

Side = Literal["a", "b"]
FEWEST_WORDS = 5  # of a summary that an attention check shows: shuffling fewer may leave a readable text


@dataclass(frozen=True)
class Pair:
    """Two texts for one source. ``left`` says for each rater's place which of the two stands on the left.

    In an attention check, ``a`` is a real summary and ``b`` another item's with its words shuffled: whoever reads
    prefers ``a`` in both questions.
    """

    name: str
    source: str
    a: str
    b: str
    left: tuple[Side, ...]
    check: bool = False


@dataclass(frozen=True)
class Design:
    """A whole study before the first rater: the names of the systems and the pairs in the order of asking."""

    systems: tuple[str, str]
    raters: int
    seed: int
    pairs: tuple[Pair, ...]


def design(a: Outputs, b: Outputs, items: int, raters: int, seed: int, checks: int = 0) -> Design:
    """Sample ``items`` items and ``checks`` attention checks, each for ``raters`` raters."""
    _refuse(a, b, items, raters, checks)
    theirs = {item.id: item for item in b.items}
    drawn = sorted(a.items, key=lambda item: _draw(seed, "sample", item.id))
    pairs = [_pair(item, theirs[item.id], raters, seed) for item in drawn[:items]]
    spare = [(item, theirs[item.id]) for item in drawn[items:]]
    pairs += _checks(spare, checks, raters, seed)
    pairs.sort(key=lambda pair: _draw(seed, "order", pair.name, pair.check))
    return Design(_names(a.name, b.name), raters, seed, tuple(pairs))


def _refuse(a: Outputs, b: Outputs, items: int, raters: int, checks: int) -> None:
    same_items(a, b)
    if items < 1 or raters < 1 or checks < 0:
        raise ValueError("a study needs at least one item and one rater: give --items and --raters of 1 or more")
    if len(a) < items + checks:
        asked = f"{items} items" + (f" and {checks} checks" if checks else "")
        raise ValueError(f"{a.name} has {len(a)} items and the study asks for {asked}: lower --items or --checks")
    for item in a.items:
        if item.source is None:
            raise ValueError(f"{a.where(item)} has no source: raters judge a summary by its source")


def _pair(one: Item, two: Item, raters: int, seed: int, check: bool = False) -> Pair:
    """Sides take turns from a fair coin on, so each side is shown equally often, up to one, within every item."""
    coin = _draw(seed, "side", one.id, check) & 1
    sides: tuple[Side, Side] = ("a", "b")
    left = tuple(sides[(coin + place) & 1] for place in range(raters))
    return Pair(one.id, one.source or "", one.hypothesis, two.hypothesis, left, check)


def _checks(spare: Sequence[tuple[Item, Item]], checks: int, raters: int, seed: int) -> Iterator[Pair]:
    """Checks from items that the study does not ask: the real summary is A's or B's by a coin."""
    shown = [(item, (item, other)[_draw(seed, "shown", item.id) & 1].hypothesis) for item, other in spare]
    usable = [(item, text) for item, text in shown if len(text.split()) >= FEWEST_WORDS]
    if checks and len(usable) < max(checks, 2):
        raise ValueError(
            f"only {len(usable)} items beside the sample have a summary of {FEWEST_WORDS} words or more: "
            f"lower --items or --checks ({checks} checks need {max(checks, 2)})"
        )
    for place, (item, text) in enumerate(usable[:checks]):
        donor = usable[place - 1][1].split()
        words = sorted(range(len(donor)), key=lambda k: _draw(seed, "word", item.id, k))
        broken = Item(item.id, " ".join(donor[k] for k in words))
        real = Item(item.id, text, source=item.source)
        yield _pair(real, broken, raters, seed, check=True)


def _draw(seed: int, *of: str | int) -> int:
    """A number below 2^256 that is as good as random and depends on its arguments alone."""
    return int.from_bytes(hashlib.sha256(json.dumps([seed, *of]).encode()).digest())


def _names(a: str, b: str) -> tuple[str, str]:
    """The shortest ends of two paths that tell them apart, without the ending of a file: x/outputs and y/outputs."""
    if a == b:
        raise ValueError(f"{a} is named twice: name the outputs of two systems")
    one, two = (name.removesuffix(".jsonl").split("/") for name in (a, b))
    for parts in range(1, max(len(one), len(two)) + 1):
        if one[-parts:] != two[-parts:]:
            return "/".join(one[-parts:]), "/".join(two[-parts:])
    return a, b
