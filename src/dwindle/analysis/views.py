"""Reads what lies beside the outputs of a run: their coverage, their traces, and the findings of
``dwindle omissions``; and prepares it for a page, packed.

For a few items a page shows the source with every token's coverage, plain against diminished,
sentence by sentence, and where steps were traced, what each of them attended to. Loads no model.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from dwindle.analysis.highlight import repeats
from dwindle.analysis.left_out import JudgedPart, judged, shares, units
from dwindle.analysis.measure import Measured
from dwindle.auditing.bulk import results
from dwindle.auditing.listeners import Listeners
from dwindle.bulk.files import digest_of
from dwindle.runfiles import arrays, names
from dwindle.runfiles.arrays import Trace
from dwindle.runfiles.outputs import Item
from dwindle.runfiles.run import Run, ears_of, findings_of

MOST_ITEMS = 40
MOST_NUMBERS = 1_200_000
"""Largest number of packed numbers on a page: at a byte each, they are most of it."""

Array = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Covered:
    """Coverage and traces of a run folder. Means of layers, (S,) for each item."""

    raw: dict[str, Array]
    effective: dict[str, Array]
    places: dict[str, npt.NDArray[np.int64]]
    traces: dict[str, Trace]


def covered(run: Run) -> Covered:
    """The coverage and the traces of a run; what it does not have is empty."""
    file, traced = run.file(names.COVERAGE), run.file(names.TRACES)
    both = arrays.read_coverage(file) if file else {}
    places = arrays.read_places(file) if file else {}
    return Covered(
        {id: array[0].mean(0) for id, array in both.items()},
        {id: array[1].mean(0) for id, array in both.items()},
        {id: at for id, at in places.items() if (at >= 0).any()},
        {one.id: one for one in arrays.read_traces(traced)} if traced else {},
    )


@dataclass(frozen=True)
class Audited:
    """The findings of one file of outputs, by item, and the listeners that made them."""

    records: dict[str, dict[str, Any]]
    listeners: Listeners

    @property
    def alarmed(self) -> list[dict[str, Any]]:
        """Items with an alarm, the worst first."""
        return sorted((r for r in self.records.values() if r["alarm"]), key=lambda r: -r["score"])


def audited(run: Run) -> Audited | None:
    """The findings in a run's outputs; None if they were not audited, or have changed since."""
    file = findings_of(run.outputs_file)
    if not file.is_file() or not ears_of(file).is_file():
        return None
    listeners = Listeners.load(ears_of(file))
    if listeners.unit != "characters" or listeners.origin.get("outputs") != digest_of(run):
        return None
    return Audited({record["id"]: record for record in results(file)}, listeners)


def pages(
    measured: Measured, found: Sequence[Covered], telling: Iterable[int]
) -> list[dict[str, Any]]:
    """Items for the coverage view: those with traces, then the most telling, as a page has room."""
    items = measured.test.items
    traced = [
        place for place, item in enumerate(items) if any(item.id in one.traces for one in found)
    ]
    made: list[dict[str, Any]] = []
    numbers = 0
    for place in dict.fromkeys([*traced, *telling]):
        item = items[place]
        if item.source is None or not any(item.id in one.places for one in found):
            continue
        outputs = [arm.runs[0].outputs.items[place].hypothesis for arm in measured.test.arms]
        views = [
            from_trace(one.traces[item.id])
            if item.id in one.traces
            else from_sums(one, item.id, item.source, output)
            for one, output in zip(found, outputs, strict=True)
        ]
        numbers += sum(len(view.get("weights", "")) for view in views if view)
        if len(made) == MOST_ITEMS or (made and numbers > MOST_NUMBERS):
            break
        made.append({"id": item.id, "source": item.source, "views": views})
    return made


def from_sums(found: Covered, id: str, source: str, output: str) -> dict[str, Any] | None:
    """The view of an item of which only sums are known; None if not even those."""
    if id not in found.places:
        return None
    return _view(source, found.places[id], found.raw[id], found.effective[id]) | {
        "output": [output]
    }


def from_trace(one: Trace) -> dict[str, Any]:
    """The view of an item with its steps."""
    raw, effective = one.attention.sum(0), one.weights.sum(0)
    view = _view(one.text, np.array(one.places), raw, effective, one.source)
    rows = {"attention": packed(one.attention), "weights": packed(one.weights)}
    return view | {"output": one.output, "again": again(one.output), "tokens": one.source} | rows


def again(output: Sequence[str]) -> list[int]:
    """The tokens of an output that are in a run of three words that it has had before."""
    marks = iter(repeats("".join(output)))
    return [t for t, token in enumerate(output) if sum(islice(marks, len(token)))]


def _view(
    source: str,
    places: npt.NDArray[np.int64],
    raw: Array,
    effective: Array,
    tokens: Sequence[str] = (),
) -> dict[str, Any]:
    unit, spans = units(source, places, tokens)
    found = [
        None if share is None else round(share, 3) for share in shares(effective, places, spans)
    ]
    return {
        "places": places.tolist(),
        "raw": packed(raw),
        "effective": packed(effective),
        "unit": unit,
        "parts": [[*span, share] for span, share in zip(spans, found, strict=True)],
    }


def packed(numbers: Array) -> str:
    """Numbers for a page's shades: the largest, then a byte each, the root of its share of that.

    Written ``largest:base64``. The square root keeps small weights apart.
    """
    most = float(numbers.max(initial=0.0))
    shades = np.round(255 * np.sqrt(np.clip(numbers, 0, None) / (most or 1))).astype(np.uint8)
    return f"{most:.6g}:{base64.b64encode(shades.tobytes()).decode()}"


def known_parts(measured: Measured, found: Sequence[Covered]) -> dict[str, list[JudgedPart]]:
    """For each arm of a synthetic world with coverage and places: all its parts, with the truth."""
    judgements = {}
    for arm, one in zip(measured.test.arms, found, strict=True):
        items = [
            i
            for i in arm.runs[0].outputs.items
            if i.id in one.places and isinstance(i.extra.get("gold"), dict)
        ]
        told = audited(arm.runs[0])
        try:
            parts = [p for i in items for p in _judged(i, one, told)]
        except ValueError:
            continue  # a world of which it is not known which part tells what
        if parts:
            judgements[arm.name] = parts
    return judgements


def _judged(item: Item, one: Covered, told: Audited | None) -> list[JudgedPart]:
    covered = {"effective coverage": one.effective[item.id], "raw attention": one.raw[item.id]}
    return judged(
        item, covered, one.places[item.id], told.records[item.id]["chars"] if told else None
    )
