"""Every world by name, and one door to their counts: `count(gold, hypothesis)`."""

from collections.abc import Callable
from typing import Any

from dwindle.data.worlds import newsroom, phrasebook, scenes
from dwindle.data.worlds.counts import Counts

WORLDS: dict[str, tuple[int, Callable[[dict[str, Any], str], Counts]]] = {
    "newsroom": (newsroom.VERSION, newsroom.count),
    "phrasebook": (phrasebook.VERSION, phrasebook.count),
    "scenes": (scenes.VERSION, scenes.count),
}
"""Name -> version, count."""


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
