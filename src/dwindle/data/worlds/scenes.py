"""The synthetic world ``scenes``: pictures of coloured things among clutter, and paragraphs.

A picture has a ground, things (shape, colour, size, pattern, no two alike in shape and colour),
specks of the same shapes and colours that are too small to be described, and grey clutter. A
detector is played: each thing gets one to several boxes that overlap, the specks, the clutter and
the bare ground get boxes too, in random order. Hence the paper's difficulty: several regions show
one thing, and whoever looks at the next region may describe it again. The paragraph describes each
thing once, the large ones first and from left to right, by its place or by its relation to the
thing before.

Everything is known: which words speak of which thing, and which regions show it. ``scenes_text``
writes and counts, ``scenes_picture`` draws, ``scenes_features`` makes the region features. Nothing
of it shows the world outside.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

from dwindle.data.example import Example, Lazy, Split
from dwindle.data.worlds.common import Chance
from dwindle.data.worlds.scenes_text import (
    COLOURS,
    GROUNDS,
    PATTERNS,
    SHAPES,
    VERSION,
    count,
    paragraph,
)

__all__ = ["SIDE", "SIZES", "VERSION", "Scenes", "count", "examples", "scene"]

SIZES: dict[Split, int] = {"train": 4_000, "dev": 300, "test": 500}
SIDE = 128
"""Width and height of a picture in pixels."""
_PAIRS = [(shape, colour) for shape in SHAPES for colour in COLOURS]
_RADII = {"large": (16, 20), "small": (9, 11), "speck": (3, 4)}
Box = list[int]


@dataclass(frozen=True)
class Scenes:
    """Knobs of the world: how crowded its pictures are, and what looks at them."""

    things: int = 4
    """The most things in a picture; the fewest is half of it."""
    specks: int = 3
    """Things too small to be described."""
    clutter: int = 4
    """Grey shapes."""
    boxes: int = 3
    """The most regions that show one thing; the fewest is one."""
    network: Literal["seeded", "efficientnet-lite0"] = "seeded"
    """Maker of the region features: a small convolutional network with fixed random weights, or
    EfficientNet-Lite0 trained on ImageNet, where its packages are installed."""

    def __post_init__(self) -> None:
        for knob, low, high in (
            ("things", 2, 9),
            ("specks", 0, 9),
            ("clutter", 0, 12),
            ("boxes", 1, 4),
        ):
            if not low <= getattr(self, knob) <= high:
                raise ValueError(f"scenes.{knob} is {getattr(self, knob)}: give {low} to {high}")


def examples(
    split: Split,
    size: int | None,
    seed: int,
    knobs: Scenes | None = None,
    folder: str | None = None,
) -> Sequence[Example]:
    """The first ``size`` examples of a split. Example i does not depend on how many there are.

    Region features are made the first time and kept in ``folder`` (None: the user's cache folder).
    """
    from dwindle.data.worlds.scenes_features import kept

    knobs = knobs or Scenes()
    make = partial(scene, split, seed, knobs)
    regions = kept(
        (VERSION, split, seed, knobs),
        make,
        SIZES[split] if size is None else size,
        knobs.network,
        folder,
    )

    @cache  # training asks for every example many times
    def example(index: int) -> Example:
        gold, name = make(index), f"scenes-{split}-{index}"
        return Example(name, name, (gold.pop("paragraph"),), gold, regions[index])

    return Lazy(example, range(len(regions)))


def scene(split: Split, seed: int, knobs: Scenes, index: int) -> dict[str, Any]:
    """All facts of one picture, as plain JSON: input of ``draw``, regions and paragraph."""
    chance = Chance("scenes", VERSION, seed, split, index)
    many = knobs.things - chance.below(knobs.things // 2 + 1)
    pairs = chance.sample(_PAIRS, many + knobs.specks)
    sizes = [chance.pick(["large", "small"]) for _ in range(many)] + ["speck"] * knobs.specks
    things: list[dict[str, Any]] = []
    for (shape, colour), size in sorted(
        zip(pairs, sizes, strict=True), key=lambda x: -_RADII[x[1]][0]
    ):
        things.append(
            {"shape": shape, "colour": colour, "size": size, **_placed(chance, things, size)}
        )
    specks = things[many:]
    # in the order in which they are told
    things = sorted(things[:many], key=lambda thing: (thing["size"] != "large", thing["at"][0]))
    clutter: list[dict[str, Any]] = []
    for _ in range(knobs.clutter):
        placed = _placed(chance, [*things, *clutter], chance.pick(["small", "speck"]))
        clutter.append({"shape": chance.pick(SHAPES), "colour": "grey", **placed})
    ground = chance.pick(GROUNDS)
    regions = _regions(chance, things, [*specks, *clutter], knobs.boxes)
    text, spoken = paragraph(chance, things, ground)
    return {
        "world": "scenes",
        "version": VERSION,
        "ground": ground,
        "things": things,
        "specks": specks,
        "clutter": clutter,
        "regions": regions,
        "spoken": spoken,
        "paragraph": text,
    }


def _placed(chance: Chance, others: Sequence[dict[str, Any]], size: str) -> dict[str, Any]:
    """A radius, a pattern, a tilt and a place without overlap, if forty tries find one."""
    low, high = _RADII[size]
    radius = low + chance.below(high - low + 1)
    for _ in range(40):
        x, y = (radius + chance.below(SIDE - 2 * radius) for _ in range(2))
        if all(
            (x - o["at"][0]) ** 2 + (y - o["at"][1]) ** 2 > (radius + o["radius"]) ** 2
            for o in others
        ):
            break
    return {
        "pattern": chance.pick(PATTERNS),
        "at": [x, y],
        "radius": radius,
        "tilt": chance.below(25) - 12,
        "shade": chance.below(41) - 20,
    }


def _regions(
    chance: Chance, things: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]], most: int
) -> list[dict[str, Any]]:
    """Proposals of a detector, in random order: boxes, and each one's thing (a number), or None."""
    found = [
        {"box": _box(chance, thing), "of": i}
        for i, thing in enumerate(things)
        for _ in range(1 + chance.below(most))
    ]
    found += [{"box": _box(chance, other), "of": None} for other in others]
    bare = [
        {"at": [chance.below(SIDE), chance.below(SIDE)], "radius": 10 + chance.below(20)}
        for _ in range(2)
    ]
    found += [{"box": _box(chance, place), "of": None} for place in bare]
    return chance.sample(found, len(found))


def _box(chance: Chance, thing: dict[str, Any]) -> Box:
    """Left, top, right, bottom: a little off, and larger or smaller than the thing."""
    (x, y), radius = thing["at"], thing["radius"]
    half = max(4, int(radius * (1 + 0.4 * chance.unit())))
    x, y = (v + int((chance.unit() - 0.5) * 0.4 * radius) for v in (x, y))
    return [max(0, x - half), max(0, y - half), min(SIDE, x + half), min(SIDE, y + half)]
