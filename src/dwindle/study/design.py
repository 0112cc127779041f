"""The design of a study: which items, in which order, which text on which side.

Every draw is a hash of the seed and of what is drawn for, so a design depends on nothing else: not
on the order of lines, not on the version of Python; and a study of 500 items holds the 100 items of
the study with the same seed. Knows nothing of databases, raters or pages.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dwindle.runfiles.outputs import Item, Outputs, same_items

Side = Literal["a", "b"]
Identical = Literal["skip", "tie"]
# of a text that an attention check shows: shuffling fewer may leave a readable text
FEWEST_WORDS = 5


@dataclass(frozen=True)
class Pair:
    """Two texts for one source. ``left``: for each rater's place, the one that stands on the left.

    In an attention check, ``a`` is a real text and ``b`` another item's with its words shuffled:
    whoever reads prefers ``a`` throughout.
    """

    name: str
    source: str
    a: str
    b: str
    left: tuple[Side, ...]
    check: bool = False


@dataclass(frozen=True)
class Design:
    """A whole study before the first rater: the systems' names, and the pairs in order.

    Nobody is asked to tell two identical texts apart. ``same`` counts such items: with
    ``identical="skip"`` all that the sample passed over, of the whole files; with ``"tie"`` those
    in the sample, each a tie by every rater.
    """

    systems: tuple[str, str]
    raters: int
    seed: int
    pairs: tuple[Pair, ...]
    practice: Pair | None = None
    identical: Identical = "skip"
    same: int = 0


def design(
    a: Outputs,
    b: Outputs,
    items: int,
    raters: int,
    seed: int,
    checks: int = 0,
    practice: bool = False,
    identical: Identical = "skip",
    names: tuple[str, str] | None = None,
) -> Design:
    """Sample items, attention checks and perhaps a practice item, each for ``raters`` raters."""
    _refuse(a, b, items, raters, checks)
    systems = _given(names) if names else _names(a.name, b.name)
    theirs = {item.id: item for item in b.items}
    drawn = sorted(a.items, key=lambda item: _draw(seed, "sample", item.id))
    different = {
        item.id for item in drawn if item.hypothesis.split() != theirs[item.id].hypothesis.split()
    }
    pool = drawn if identical == "tie" else [item for item in drawn if item.id in different]
    sampled = {item.id for item in pool[:items]}
    spare = [(item, theirs[item.id]) for item in drawn if item.id not in sampled]
    trial = [pair for pair in spare if pair[0].id in different][-1:] if practice else []
    _suffices(a, items, len(pool), checks, len(spare), practice - len(trial))
    pairs = [
        _pair(item, theirs[item.id], raters, seed) for item in pool[:items] if item.id in different
    ]
    if not pairs:
        raise ValueError(
            "the two texts of every sampled item are identical: there is nothing to ask"
        )
    pairs += _checks([pair for pair in spare if pair not in trial], checks, raters, seed)
    pairs.sort(key=lambda pair: _draw(seed, "order", pair.name, pair.check))
    same = len(sampled - different) if identical == "tie" else len(drawn) - len(different)
    shown = _pair(*trial[0], 1, seed) if trial else None
    return Design(systems, raters, seed, tuple(pairs), shown, identical, same)


def _refuse(a: Outputs, b: Outputs, items: int, raters: int, checks: int) -> None:
    same_items(a, b)
    if items < 1 or raters < 1 or checks < 0:
        raise ValueError(
            "a study needs at least one item and one rater: give --items and --raters of 1 or more"
        )
    for item in a.items:
        if item.source is None:
            raise ValueError(f"{a.where(item)} has no source: raters judge a text by its source")


def _suffices(a: Outputs, items: int, pool: int, checks: int, spare: int, lacking: int) -> None:
    if pool < items:
        differ = "" if pool == len(a) else f", of which {pool} have two texts that differ,"
        raise ValueError(
            f"{a.name} has {len(a)} items{differ} and the study asks for {items}: lower --items"
        )
    if spare < checks:
        asked = f"{items} items and {checks} checks"
        raise ValueError(
            f"{a.name} has {len(a)} items and the study asks for {asked}: lower --items or --checks"
        )
    if lacking:
        raise ValueError(
            f"{a.name} has no item left for practice: lower --items, or leave out --practice"
        )


def _pair(one: Item, two: Item, raters: int, seed: int, check: bool = False) -> Pair:
    """Two texts of an item, with the one on the left for every rater's place.

    Sides alternate from a fair coin on, so both orders are shown equally often within an item, give
    or take one.
    """
    coin = _draw(seed, "side", one.id, check) & 1
    sides: tuple[Side, Side] = ("a", "b")
    left = tuple(sides[(coin + place) & 1] for place in range(raters))
    return Pair(one.id, one.source or "", one.hypothesis, two.hypothesis, left, check)


def _checks(
    spare: Sequence[tuple[Item, Item]], checks: int, raters: int, seed: int
) -> Iterator[Pair]:
    """Checks from items that the study does not ask: the real text is A's or B's by a coin."""
    shown = [
        (item, (item, other)[_draw(seed, "shown", item.id) & 1].hypothesis) for item, other in spare
    ]
    usable = [(item, text) for item, text in shown if len(text.split()) >= FEWEST_WORDS]
    if checks and len(usable) < max(checks, 2):
        raise ValueError(
            f"only {len(usable)} items beside the sample have a text of {FEWEST_WORDS} words or "
            f"more: lower --items or --checks ({checks} checks need {max(checks, 2)})"
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


def _given(names: tuple[str, str]) -> tuple[str, str]:
    if len(names) != 2 or names[0] == names[1] or not all(name.strip() for name in names):
        raise ValueError("the names of two systems are two different words: give --names ONE,TWO")
    return names


def _names(a: str, b: str) -> tuple[str, str]:
    """The shortest ends of two paths that differ, without file endings: x/outputs and y/outputs."""
    if a == b:
        raise ValueError(f"{a} is named twice: name the outputs of two systems")
    one, two = (name.removesuffix(".jsonl").split("/") for name in (a, b))
    for parts in range(1, max(len(one), len(two)) + 1):
        if one[-parts:] != two[-parts:]:
            return "/".join(one[-parts:]), "/".join(two[-parts:])
    return a, b
