"""Examples to look at: which items a report keeps, and how each text is cut for the eye.

Copied spans of three words or more carry the number of the source sentence they come from (as in
the paper's Tables 10 to 13); three words or more that the output has had before are marked as
repeated, and words in which it differs from the base's as different. Of many items the largest
gains, the largest losses and a random draw are kept, so that the worst cases are as easy to see as
the best; of one system alone, the worst by every criterion.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from itertools import islice
from random import Random
from typing import Any

import numpy as np

from dwindle.analysis.highlight import SourceText, repeats
from dwindle.analysis.measure import REPEATED, Measured
from dwindle.analysis.views import audited
from dwindle.data.script import word_spans, words
from dwindle.metrics.catalogue import kind, title
from dwindle.metrics.kind import Better
from dwindle.metrics.score import Array
from dwindle.runfiles.outputs import Item

MOST_ITEMS = 500
MOST_CHARACTERS = 3_000_000
SEED = 1

_WORST = (REPEATED, "copied-share")
"""Metrics by which one system's worst items are found before any other."""
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
    """A piece of an output. ``copied``: the source sentence it comes from; ``other``: the base does
    not have it; ``repeated``: the output has had it before."""

    text: str
    copied: int | None
    other: bool
    repeated: bool


@dataclass(frozen=True)
class Examples:
    """Data of a page: the systems (base first), the metrics (1 if higher is better), the items."""

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
        return {
            "systems": self.systems,
            "metrics": self.metrics,
            "items": self.items,
            "total": self.total,
        }


@dataclass(frozen=True)
class Criterion:
    """Something to sort items by: its name, its title, the better direction, (arms, N) values."""

    name: str
    title: str
    better: Better
    values: Array

    def worst(self) -> Array:
        """(N,) of the first system: higher is worse; without a direction, far from the median."""
        own: Array = self.values[0]
        if self.better:
            return np.multiply(own, -self.better)
        return own if self.name == "copied-share" else np.abs(np.subtract(own, np.nanmedian(own)))


def criteria(measured: Measured) -> list[Criterion]:
    """All that items can be sorted by. Of one system, what differs between items: the score of
    omissions, repetition, copied words and the length ratio first, then the metrics."""
    alone = len(measured.arms) == 1
    first = _WORST if alone else ()
    # The main metric too: a translation's is not among the others. Its length to the source is the
    # criterion of ``_ratios``.
    main = [name for name in measured.main[:1] if name != "length:source"]
    wanted = dict.fromkeys([*first, *main, *_EACH])
    names = [
        m
        for m in wanted
        if m in measured.metrics and all(_known(measured, arm, m) for arm in measured.arms)
    ]
    found = [
        Criterion(
            m,
            title(m),
            kind(m).better,
            np.stack([measured.per_item(arm, m) for arm in measured.arms]),
        )
        for m in names
    ]
    omissions, ratios = _omissions(measured), _ratios(measured)
    if not alone:
        return [*found, *filter(None, (omissions, ratios))]
    early = [one for one in found if one.name in first]
    later = [one for one in found if one.name not in first]
    every = list(filter(None, [omissions, *early, ratios, *later]))
    return [one for one in every if np.nanmax(one.values) > np.nanmin(one.values)] or every[:1]


def _omissions(measured: Measured) -> Criterion | None:
    """Probability that each output leaves something out, if every system was audited."""
    told = [audited(arm.runs[0]) for arm in measured.test.arms]
    if not all(told):
        return None
    scores = np.array(
        [[one.records[item.id]["score"] for item in measured.test.items] for one in told if one],
        dtype=float,
    )
    return (
        None if np.isnan(scores).all() else Criterion("left-out", "score of omissions", -1, scores)
    )


def _ratios(measured: Measured) -> Criterion | None:
    """Words of each output for a word of its source, or else of its first reference."""
    items = measured.test.items
    against = [
        item.source if item.source is not None else next(iter(item.references), None)
        for item in items
    ]
    if any(text is None for text in against):
        return None
    lengths = np.array([max(len(words(text or "")), 1) for text in against])
    own = [
        [len(words(item.hypothesis)) for item in arm.runs[0].outputs.items]
        for arm in measured.test.arms
    ]
    what = "source" if all(item.source is not None for item in items) else "reference"
    return Criterion("length-ratio", f"length to {what}", 0, np.array(own) / lengths)


def examples(measured: Measured) -> Examples:
    """The items to look at of one test set, from the first run of each arm."""
    found = criteria(measured)
    base, *others = measured.arms
    gains = {
        arm: {c.name: ((c.values[k] - c.values[0]) * (c.better or 1)).tolist() for c in found}
        for k, arm in enumerate(others, 1)
    }
    first = [np.array(of[found[0].name]) for of in gains.values()]
    worst = {} if others else {c.name: c.worst() for c in found}
    orders = [*first, *(-one for one in first), *worst.values()]
    items = [
        _item(measured, place, {c.name: [_rounded(v) for v in c.values[:, place]] for c in found})
        | (
            {"worst": {name: _rounded(bad[place], 4) for name, bad in worst.items()}}
            if worst
            else {}
        )
        for place in _kept(measured, orders)
    ]
    telling = list(islice(interesting(measured, orders), MOST_ITEMS))
    named = [(c.name, c.title, c.better) for c in found]
    return Examples([base, *others], named, items, len(measured.test.items), gains, telling)


def _rounded(value: float, digits: int = 2) -> float | None:
    """For JSON, which has no NaN: None is not known."""
    return None if np.isnan(value) else round(float(value), digits)


def _known(measured: Measured, arm: str, metric: str) -> bool:
    return measured.value(arm, metric) is not None


def interesting(measured: Measured, telling: list[Array]) -> Iterator[int]:
    """Every item's place: by turns the best left of each of ``telling``, then one at random."""
    count = len(measured.test.items)
    draw = Random(SEED).sample(range(count), count)
    orders = [
        np.argsort(-np.nan_to_num(one, nan=-np.inf), kind="stable").tolist() for one in telling
    ]
    seen: set[int] = set()
    for turn in range(count):
        for order in [*orders, draw]:
            if order[turn] not in seen:
                seen.add(order[turn])
                yield order[turn]


def _kept(measured: Measured, telling: list[Array]) -> list[int]:
    """Places of the items to keep, in the order of ids: as many as a page can hold."""
    kept: list[int] = []
    characters = 0
    for place in interesting(measured, telling):
        characters += _characters(measured, place)
        if len(kept) == MOST_ITEMS or (kept and characters > MOST_CHARACTERS):
            break
        kept.append(place)
    return sorted(kept)


def _characters(measured: Measured, place: int) -> int:
    item = measured.test.items[place]
    outputs = sum(len(arm.runs[0].outputs.items[place].hypothesis) for arm in measured.test.arms)
    return len(item.source or "") + sum(map(len, item.references)) + outputs


def _item(measured: Measured, place: int, scores: dict[str, list[float | None]]) -> dict[str, Any]:
    item: Item = measured.test.items[place]
    source = SourceText(item.source or "")
    texts = [arm.runs[0].outputs.items[place].hypothesis for arm in measured.test.arms]
    outputs = [
        [list(asdict(one).values()) for one in stretches(text, source, texts[0])] for text in texts
    ]
    return {
        "id": item.id,
        "source": source.sentences if item.source is not None else None,
        "references": list(item.references),
        "outputs": outputs,
        "scores": scores,
    }


def stretches(text: str, source: SourceText, base: str) -> list[Stretch]:
    """``text`` in pieces; joined again they are the text."""
    copied = [
        number for piece in source.pieces(text) for number in [piece.sentence] * len(piece.text)
    ]
    marks = zip(copied, _others(text, base), repeats(text), strict=True)
    found: list[Stretch] = []
    for character, mark in zip(text, marks, strict=True):
        if found and (found[-1].copied, found[-1].other, found[-1].repeated) == mark:
            found[-1] = Stretch(found[-1].text + character, *mark)
        else:
            found.append(Stretch(character, *mark))
    return found


def _others(text: str, base: str) -> list[bool]:
    """For each character, whether it is in a word that is not in the common sequence with ``base``.
    The blanks between two such words belong to them."""
    mine = word_spans(text)
    matcher = SequenceMatcher(
        None, words(base), [text[a:b].casefold() for a, b in mine], autojunk=False
    )
    marks = [False] * len(text)
    for change, _, _, start, end in matcher.get_opcodes():
        if change in ("replace", "insert"):
            first, last = mine[start][0], mine[end - 1][1]
            marks[first:last] = [True] * (last - first)
    return marks
