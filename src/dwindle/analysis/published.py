"""The paper's figures beside ours. The figures are facts in ``published.json``, each under the number of its table.

A run belongs to a row when its recipe has the name that is shipped for the row. No difference is ever taken between a
published figure and one of ours: items, tools and training differ. Where nothing was run, it says so.
"""

import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

from dwindle.analysis.measure import REFERENCE, Measured
from dwindle.analysis.table import NOTHING, Cell, Table
from dwindle.metrics.catalogue import kind, title

NOT_RUN = Cell("not run", tone="quiet")


def tables(measured: Sequence[Measured]) -> list[Table]:
    """Every table of the paper that has a result, with a column for what was published and one for ours."""
    text = resources.files("dwindle.analysis").joinpath("published.json").read_text(encoding="utf-8")
    return [_table(table, measured) for table in json.loads(text)]


def _table(table: dict[str, Any], measured: Sequence[Measured]) -> Table:
    rows, notes = [], []
    known = {row["run"]: _find(row["run"], measured) for row in table["rows"]}
    first = next((test for test, _ in known.values() if test), None)
    known["reference"] = (first, REFERENCE)
    for row in table["rows"]:
        test, name = known[row["run"]]
        if test and name != REFERENCE:
            notes.append(f"{row['system']}: {_scale(test, name, table['items'])}")
        cells: list[Cell] = []
        for metric, value in zip(table["metrics"], row["values"], strict=True):
            cells += [NOTHING if value is None else Cell(_as_printed(table["table"], value)), _ours(test, name, metric)]
        rows.append((row["system"], tuple(cells)))
    over = tuple((title(metric), 2) for metric in table["metrics"])
    columns = ("system", *(name for _ in table["metrics"] for name in ("paper", "ours")))
    return Table(f"Table {table['table']}: {table['about']}", columns, tuple(rows), tuple(notes), over)


def _find(run: str | None, measured: Sequence[Measured]) -> tuple[Measured | None, str]:
    """The first arm whose recipe has this name."""
    found = ((one, arm.name) for one in measured for arm in one.test.arms if run and arm.recipe.get("name") == run)
    return next(found, (None, ""))


def _ours(test: Measured | None, name: str, metric: str) -> Cell:
    if test is None:
        return NOT_RUN
    value = test.value(name, metric) or _tokenised(test, name, metric)
    return Cell(kind(metric).text(value.value)) if value else NOT_RUN


def _tokenised(test: Measured, name: str, metric: str) -> Any:
    """BLEU with whichever tokens the recipe asked for."""
    head, slash, half = metric.partition("/")
    other = next((m for m in test.main if m.partition(":")[0] == head), None)
    return test.value(name, f"{other}{slash}{half}") if other else None


def _scale(test: Measured, name: str, items: int | None) -> str:
    """What of ours stands behind a row: which arm, how many items, how much training."""
    arm = next(arm for arm in test.test.arms if arm.name == name)
    size = len(test.test.items)
    parts = [f"ours is {name}, {size:,} items" + (f" of {items:,}" if items and items != size else "")]
    training, train = arm.recipe.get("training") or {}, (arm.recipe.get("data", {}).get("size") or {}).get("train")
    if train:
        parts.append(f"{train:,} examples to train on")
    for unit in ("steps", "epochs"):
        if training.get(unit):
            parts.append(f"{training[unit]:,} {unit}")
    if len(arm.runs) > 1:
        parts.append(f"mean of {len(arm.runs)} seeds")
    return ", ".join(parts)


def _as_printed(table: str, value: float) -> str:
    """With the decimals of the paper: one in Tables 4, 14 and 15, else two; Table 5 mixes them, and CIDEr is in
    hundredths of what Table 3 prints."""
    if table == "5":
        return f"{value:g}"
    if table == "3":
        return f"{value:.4f}"
    return f"{value:.1f}" if table in ("4", "14", "15") else f"{value:.2f}"
