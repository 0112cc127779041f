"""Omissions, repetitions and inventions of outputs, counted where the truth is known.

That is the case for items of the synthetic worlds, whose ``gold`` lists the facts to state. All
values are percentages over all items.

``omission``: of the facts to say, those not said. Of the statements made: ``redundancy`` those made
before, ``invention`` those that nothing in the source licenses, ``straying`` those that are true
but should have been left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dwindle.data.worlds import newsroom, phrasebook, scenes
from dwindle.data.worlds.common import Counts
from dwindle.metrics.kind import Kind
from dwindle.metrics.score import Metric, made, percent
from dwindle.runfiles.outputs import Item

WORLDS: dict[str, tuple[int, Callable[[dict[str, Any], str], Counts]]] = {
    "newsroom": (newsroom.VERSION, newsroom.count),
    "phrasebook": (phrasebook.VERSION, phrasebook.count),
    "scenes": (scenes.VERSION, scenes.count),
}
"""Name -> version, count."""
KINDS = tuple(
    Kind(name, name, -1, "%") for name in ("omission", "redundancy", "invention", "straying")
)
NAMES = tuple(kind.name for kind in KINDS)


@dataclass(frozen=True)
class World:
    """Facts omitted, repeated, invented and strayed, then facts and statements."""

    needs: frozenset[str] = frozenset({"gold"})

    def row(self, item: Item) -> list[float]:
        if item.extra.get("gold") is None:
            raise ValueError(
                f"item {item.id!r} has no gold, so what it leaves out is not known: "
                f"leave {', '.join(NAMES)} out, they are for the synthetic worlds"
            )
        try:
            counts = count(item.extra["gold"], item.hypothesis)
        except ValueError as error:
            raise ValueError(f"item {item.id!r}: {error}") from None
        return [
            counts.omitted,
            counts.repeated,
            counts.invented,
            counts.strayed,
            counts.facts,
            counts.stated,
        ]


def metrics(option: str = "") -> list[Metric]:
    """The four percentages. There is no option."""
    if option:
        raise ValueError(f"{', '.join(NAMES)} have no option {option!r}: leave it out")
    worlds = ",".join(f"{name}.{version}" for name, (version, _) in WORLDS.items())
    settings = made(avg="micro", worlds=worlds)
    return [
        Metric(kind, World(), (i, 5 if i else 4), percent, settings) for i, kind in enumerate(KINDS)
    ]


def count(gold: Any, hypothesis: str) -> Counts:
    """Count an output by the rules of the world its gold is from."""
    name = gold.get("world") if isinstance(gold, dict) else None
    if not isinstance(name, str) or name not in WORLDS:
        raise ValueError(
            f"the gold is not of a known world ({name!r}): the worlds are {', '.join(WORLDS)}"
        )
    version, counted = WORLDS[name]
    if gold.get("version") != version:
        raise ValueError(
            f"the gold is of {name} version {gold.get('version')!r}, this is version {version}: "
            "make the outputs again"
        )
    try:
        return counted(gold, hypothesis)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"the gold is not as {name} writes it ({error}): make the outputs again"
        ) from None
