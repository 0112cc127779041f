"""The paper's figures beside ours. The figures are facts in ``published.json``, each under the number of its table.

A run belongs to a row when its recipe has that corpus, kind of model and rule. No difference is ever taken between a
published figure and one of ours: items, tools and training differ. Where nothing was run, it says so.
"""

import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

from dwindle.analysis.arms import Arm
from dwindle.analysis.measure import REFERENCE, Measured
from dwindle.analysis.table import NOTHING, Cell, Table, number, title
from dwindle.attention.notation import rule

NOT_RUN = Cell("not run", tone="quiet")


def tables(measured: Sequence[Measured]) -> list[Table]:
    """Every table of the paper that has a result, with a column for what was published and one for ours."""
    text = resources.files("dwindle.analysis").joinpath("published.json").read_text(encoding="utf-8")
    return [_table(table, measured) for table in json.loads(text)]


def _table(table: dict[str, Any], measured: Sequence[Measured]) -> Table:
    rows = []
    found: dict[str, str] = {}
    for row in table["rows"]:
        test, name = _find(table["corpus"], row, measured)
        if test and name:
            found[row["system"]] = _scale(test, name, table["items"])
        cells: list[Cell] = []
        for metric, value in zip(table["metrics"], row["values"], strict=True):
            cells += [NOTHING if value is None else Cell(f"{value:g}" if "." not in str(value) else str(value))]
            cells += [_ours(test, name, metric)]
        rows.append((row["system"], tuple(cells)))
    over = tuple((title(metric), 2) for metric in table["metrics"])
    columns = ("system", *(name for _ in table["metrics"] for name in ("paper", "ours")))
    notes = tuple(f"{system}: {scale}" for system, scale in found.items())
    return Table(f"Table {table['table']}: {table['about']}", columns, tuple(rows), notes, over)


def _find(corpus: str, row: dict[str, Any], measured: Sequence[Measured]) -> tuple[Measured | None, str | None]:
    """The first arm that is what the row is about."""
    for one in measured:
        arms = [arm for arm in one.test.arms if arm.recipe.get("data", {}).get("corpus") == corpus]
        if arms and row.get("kind") == REFERENCE:
            return one, REFERENCE
        for arm in arms:
            if "kind" in row and _is(arm, row):
                return one, arm.name
    return None, None


def _is(arm: Arm, row: dict[str, Any]) -> bool:
    """Whether an arm's recipe has all that the row names."""
    model, training, decoding = (arm.recipe.get(part) or {} for part in ("model", "training", "decoding"))
    has = {
        "kind": model.get("kind"),
        "rule": type(rule(model.get("rule") or "plain")).__name__.lower(),
        "coverage": bool(model.get("coverage")),
        "objective": training.get("objective", "cross-entropy"),
        "source_length": model.get("source_length"),
        "norm": decoding.get("length_norm") not in (None, "none", "average"),
        "block": bool(decoding.get("block_ngrams")),
    }
    return all(has[key] == row[key] for key in has if key in row)


def _ours(test: Measured | None, name: str | None, metric: str) -> Cell:
    if test is None or name is None:
        return NOT_RUN
    value = test.value(name, metric) or _tokenised(test, name, metric)
    return Cell(number(metric, value.value)) if value else NOT_RUN


def _tokenised(test: Measured, name: str, metric: str) -> Any:
    """BLEU with whichever tokens the recipe asked for."""
    head, slash, half = metric.partition("/")
    other = next((m for m in test.main if m.partition(":")[0] == head), None)
    return test.value(name, f"{other}{slash}{half}") if other else None


def _scale(test: Measured, name: str, items: int | None) -> str:
    """What of ours stands behind a row: which arm, how many items, how much training data."""
    arm = next((arm for arm in test.test.arms if arm.name == name), test.test.arms[0])
    size = len(test.test.items)
    parts = [f"ours is {name}, {size:,} items" + (f" of {items:,}" if items and items != size else "")]
    train = (arm.recipe.get("data", {}).get("size") or {}).get("train")
    if train:
        parts.append(f"trained on {train:,} examples")
    if len(arm.runs) > 1:
        parts.append(f"mean of {len(arm.runs)} seeds")
    return ", ".join(parts)
