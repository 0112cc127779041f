"""Examples to look at: which items a report keeps, and how each text is cut for the eye.

Copied spans of three words or more carry the number of the source sentence they come from (as in the paper's Tables
10 to 13); three words or more that the output has had before are marked as repeated, and words in which it differs from
the base's as different. Of many items the largest gains, the largest
losses and a random draw are kept, so that the worst cases are as easy to see as the best.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from itertools import islice
from random import Random
from typing import Any

import numpy as np

from dwindle.analysis.highlight import SourceText, repeats
from dwindle.analysis.measure import Measured
from dwindle.folder.outputs import Item
from dwindle.metrics.catalogue import kind, title
from dwindle.metrics.kind import Better
from dwindle.metrics.score import Array

MOST_ITEMS = 500
MOST_CHARACTERS = 3_000_000
SEED = 1

_WORD = re.compile(r"\w+")
_EACH = (
    "rouge1",
    "rouge2",
    "rougeL",
    "omission",
    "invention",
    "redundancy",
    "repetition3",
    "repetition1",
    "novelty2",
    "length",
)


@dataclass(frozen=True)
class Stretch:
    """A piece of an output. ``copied``: the source sentence it comes from; ``other``: the base does not have it;
    ``repeated``: the output has had it before."""

    text: str
    copied: int | None
    other: bool
    repeated: bool


@dataclass(frozen=True)
class Examples:
    """What a page needs: the systems (the base first), the metrics with 1 for higher is better, the kept items."""

    systems: list[str]
    metrics: list[tuple[str, str, Better]]
    items: list[dict[str, Any]]
    total: int
    gains: dict[str, dict[str, list[float]]]
    """For each other system and metric, the gain of every item, kept or not."""
    telling: list[int]
    """Places of items, the most telling first."""

    def data(self) -> dict[str, Any]:
        """For JSON, without the gains of items that are not shown."""
        return {"systems": self.systems, "metrics": self.metrics, "items": self.items, "total": self.total}


def examples(measured: Measured) -> Examples:
    """The items to look at of one test set, from the first run of each arm."""
    wanted = dict.fromkeys([measured.main[0], *_EACH])  # a translation is sorted by its own metric
    metrics = [m for m in wanted if m in measured.metrics and all(_known(measured, arm, m) for arm in measured.arms)]
    values = {m: np.stack([measured.per_item(arm, m) for arm in measured.arms]) for m in metrics}  # (arms, N)
    base, *others = measured.arms
    gains = {
        arm: {m: ((values[m][k] - values[m][0]) * (kind(m).better or 1)).tolist() for m in metrics}
        for k, arm in enumerate(others, 1)
    }
    first = [np.array(of[metrics[0]]) for of in gains.values()]
    items = [
        _item(measured, place, {m: [round(float(v), 2) for v in values[m][:, place]] for m in metrics})
        for place in _kept(measured, first)
    ]
    telling = list(islice(interesting(measured, first), MOST_ITEMS))
    named = [(m, title(m), kind(m).better) for m in metrics]
    return Examples([base, *others], named, items, len(measured.test.items), gains, telling)


def _known(measured: Measured, arm: str, metric: str) -> bool:
    return measured.value(arm, metric) is not None


def interesting(measured: Measured, gains: list[Array]) -> Iterator[int]:
    """Every item's place, the telling ones first: by turns each system's largest gain and loss, and one at random."""
    count = len(measured.test.items)
    draw = Random(SEED).sample(range(count), count)
    orders = [np.argsort(sign * gain, kind="stable").tolist() for gain in gains for sign in (-1, 1)]
    seen: set[int] = set()
    for turn in range(count):
        for order in [*orders, draw]:
            if order[turn] not in seen:
                seen.add(order[turn])
                yield order[turn]


def _kept(measured: Measured, gains: list[Array]) -> list[int]:
    """Places of the items to keep, in the order of ids: as many as a page can hold."""
    kept: list[int] = []
    characters = 0
    for place in interesting(measured, gains):
        characters += _characters(measured, place)
        if len(kept) == MOST_ITEMS or (kept and characters > MOST_CHARACTERS):
            break
        kept.append(place)
    return sorted(kept)


def _characters(measured: Measured, place: int) -> int:
    item = measured.test.items[place]
    outputs = sum(len(arm.runs[0].outputs.items[place].hypothesis) for arm in measured.test.arms)
    return len(item.source or "") + sum(map(len, item.references)) + outputs


def _item(measured: Measured, place: int, scores: dict[str, list[float]]) -> dict[str, Any]:
    item: Item = measured.test.items[place]
    source = SourceText(item.source or "")
    texts = [arm.runs[0].outputs.items[place].hypothesis for arm in measured.test.arms]
    outputs = [[list(asdict(one).values()) for one in stretches(text, source, texts[0])] for text in texts]
    return {
        "id": item.id,
        "source": source.sentences if item.source is not None else None,
        "references": list(item.references),
        "outputs": outputs,
        "scores": scores,
    }


def stretches(text: str, source: SourceText, base: str) -> list[Stretch]:
    """``text`` in pieces; joined again they are the text."""
    copied = [number for piece in source.pieces(text) for number in [piece.sentence] * len(piece.text)]
    marks = zip(copied, _others(text, base), repeats(text), strict=True)
    found: list[Stretch] = []
    for character, mark in zip(text, marks, strict=True):
        if found and (found[-1].copied, found[-1].other, found[-1].repeated) == mark:
            found[-1] = Stretch(found[-1].text + character, *mark)
        else:
            found.append(Stretch(character, *mark))
    return found


def _others(text: str, base: str) -> list[bool]:
    """For each character, whether it is in a word that is not in the common sequence with ``base``. The blanks between
    two such words belong to them."""
    mine = list(_WORD.finditer(text))
    words = [match[0].casefold() for match in mine]
    matcher = SequenceMatcher(None, [w.casefold() for w in _WORD.findall(base)], words, autojunk=False)
    marks = [False] * len(text)
    for change, _, _, start, end in matcher.get_opcodes():
        if change in ("replace", "insert"):
            first, last = mine[start].start(), mine[end - 1].end()
            marks[first:last] = [True] * (last - first)
    return marks
