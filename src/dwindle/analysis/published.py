"""The paper's figures beside ours. A run belongs to a row when its recipe has the name that is
shipped for the row.

No difference is ever taken between a published figure and one of ours: items, tools and training
differ. Where nothing was run, it says so.
"""

import json
import math
from collections.abc import Sequence

from dwindle.analysis.measure import REFERENCE, Measured, Value
from dwindle.metrics import paper
from dwindle.metrics.catalogue import kind, title
from dwindle.metrics.kind import split
from dwindle.metrics.paper import PaperRow, PaperTable
from dwindle.metrics.table import NOTHING, Cell, Table
from dwindle.runfiles import names
from dwindle.runfiles.run import Run

NOT_RUN = Cell("not run", tone="quiet")
_MOST_HEADER = 100_000_000  # bytes: what safetensors itself allows


def tables(measured: Sequence[Measured]) -> list[Table]:
    """Every table of the paper with a column for what was published and one for ours; none if no
    row was run."""
    known = paper.tables()
    if not any(_find(row.run, measured)[0] for table in known for row in table.rows):
        return []
    return [_table(table, measured) for table in known]


def _table(table: PaperTable, measured: Sequence[Measured]) -> Table:
    rows, notes = [], []
    known = {row.run: _find(row.run, measured) for row in table.rows}
    first = next((test for test, _ in known.values() if test), None)
    known["reference"] = (first, REFERENCE)
    over = [(title(metric), 2) for metric in table.metrics]
    over += [("confidence, %", 2)] if table.table == "4" else []
    over += [("P-Data", 1), ("Params", 2)] if table.table == "1" else []
    for row in table.rows:
        test, name = known[row.run]
        if test and name != REFERENCE:
            notes.append(f"{row.system}: {_scale(test, name, table.items)}")
        cells: list[Cell] = []
        for metric, value in zip(table.metrics, row.values, strict=True):
            cells += [_printed(table.table, value), _ours(test, name, metric)]
        cells += _confidences(row, test, name, table.metrics[0]) if table.table == "4" else []
        cells += _sizes(row, test, name) if table.table == "1" else []
        rows.append((row.system, tuple(cells)))
    columns = ("system", *(column for _, count in over for column in ("paper", "ours")[:count]))
    return Table(
        f"Table {table.table}: {table.about}", columns, tuple(rows), tuple(notes), tuple(over)
    )


def _find(run: str | None, measured: Sequence[Measured]) -> tuple[Measured | None, str]:
    """The first arm whose recipe has this name."""
    found = (
        (one, arm.name)
        for one in measured
        for arm in one.test.arms
        if run and arm.recipe.get("name") == run
    )
    return next(found, (None, ""))


def _ours(test: Measured | None, name: str, metric: str) -> Cell:
    if test is None:
        return NOT_RUN
    value = test.value(name, metric) or _likewise(test, name, metric)
    return Cell(kind(metric).text(value.value)) if value else NOT_RUN


def _likewise(test: Measured, name: str, metric: str) -> Value | None:
    """The same metric with the run's option: MoverScore's encoder, BLEU's tokens."""
    wanted = split(metric)
    other = next((m for m in test.main if split(m).kind == wanted.kind), None)
    return test.value(name, f"{other}/{wanted.half}" if wanted.half else other) if other else None


def _confidences(row: PaperRow, test: Measured | None, name: str, metric: str) -> list[Cell]:
    """Number of 100 resamples in which the system is above the baseline (Koehn, 2004)."""
    printed = NOTHING if row.confidence is None else Cell(f"{row.confidence:.1f}")
    if test is None:
        return [printed, NOT_RUN]
    delta = test.difference(name, metric)
    return [
        printed,
        NOTHING if delta is None or delta.wins is None else Cell(f"{100 * delta.wins:.1f}"),
    ]


def _sizes(row: PaperRow, test: Measured | None, name: str) -> list[Cell]:
    """Pre-training data and parameters as printed, and the parameters that ours has."""
    printed = [
        NOTHING if text is None else Cell(text) for text in (row.pretraining, row.parameters)
    ]
    if test is None:
        return [*printed, NOT_RUN]
    arm = next(arm for arm in test.test.arms if arm.name == name)
    count = parameters(arm.runs[0])
    return [*printed, NOTHING if count is None else Cell(f"{count / 1e6:,.1f}M")]


def parameters(run: Run) -> int | None:
    """Count of numbers in a run's saved weights, from their header alone; None without weights."""
    file = run.file(f"{names.MODEL}/model.safetensors")
    if file is None:
        return None
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = opened.read(length) if length <= _MOST_HEADER else b""
    try:
        tensors = {
            name: entry for name, entry in json.loads(header).items() if name != "__metadata__"
        }
        return sum(int(math.prod(entry["shape"])) for entry in tensors.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(
            f"{file} does not begin like a safetensors file: train the run again"
        ) from None


def _scale(test: Measured, name: str, items: int | None) -> str:
    """Our run behind a row of the paper: which arm, how many items, how much training."""
    arm = next(arm for arm in test.test.arms if arm.name == name)
    size = len(test.test.items)
    parts = [
        f"ours is {name}, {size:,} items" + (f" of {items:,}" if items and items != size else "")
    ]
    training = arm.recipe.get("training") or {}
    train = (arm.recipe.get("data", {}).get("size") or {}).get("train")
    if train:
        parts.append(f"{train:,} examples to train on")
    for unit in ("steps", "epochs"):
        if training.get(unit):
            parts.append(f"{training[unit]:,} {unit}")
    if len(arm.runs) > 1:
        parts.append(f"mean of {len(arm.runs)} seeds")
    return ", ".join(parts)


def _printed(table: str, value: float | None) -> Cell:
    """With the decimals of the paper: one in Tables 4, 14 and 15, else two; Table 5 mixes them, and
    CIDEr is in hundredths of what Table 3 prints."""
    if value is None:
        return NOTHING
    if table == "5":
        return Cell(f"{value:g}")
    decimals = 4 if table == "3" else 1 if table in ("4", "14", "15") else 2
    return Cell(f"{value:.{decimals}f}")
