"""A grid: one recipe with several values for some settings. Every combination is tried on dev, the
best is run on test.

    OUT/tries/NN    one try, an ordinary run that decodes and scores dev
    OUT/best        the winner, an ordinary run on test
    OUT/grid.json   every try with its settings and its value, and the winner
    OUT/grid.md     the same, to read

Tries that differ in decoding alone share one trained model. Knows nothing of models.
"""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dwindle.metrics import text_tables
from dwindle.metrics.score import Metric, reduce
from dwindle.metrics.table import Cell, Table
from dwindle.runfiles import names, whole
from dwindle.runs import schema, shelf, steps
from dwindle.runs.job import Job
from dwindle.runs.recipe import ROOT, Recipe
from dwindle.runs.steps import Say
from dwindle.system import machine
from dwindle.training.selection import metric


@dataclass(frozen=True)
class Try:
    """One combination of values."""

    changes: dict[str, Any]
    wanted: Recipe
    """Its value on dev."""


def search(wanted: Recipe, out: Path | None = None, say: Say = lambda sentence: None) -> Job:
    """Try all, choose on dev, run the winner on test; what is done already is not done again."""
    assert wanted.grid is not None
    by = metric(wanted.grid.by)
    tries = list(tried(wanted))  # a bad value shows now
    out = out or ROOT / wanted.name
    start = steps.beside(out, wanted) if wanted.start else None
    runs: list[Job] = []
    for number, one in enumerate(tries, 1):
        runs.append(_run(one.wanted, out / names.TRIES / f"{number:02d}", start, runs, say))
    values = [float(reduce(run.outputs, [by], machine.cores()).value(by)) for run in runs]
    best = max(range(len(tries)), key=lambda i: values[i] * by.kind.better)
    if machine.is_first():
        _write(out, by, tries, values, best)
    say(f"{out}: best on dev by {by.name}: {_told(tries[best].changes)}")
    return _run(
        replace(tries[best].wanted, split="test", name=wanted.name),
        out / names.BEST,
        start,
        [runs[best]],
        say,
    )


def tried(wanted: Recipe) -> Iterator[Try]:
    """The combinations of a recipe's grid, in order, each a recipe of its own."""
    grid = wanted.grid
    if grid is None:
        raise ValueError(f"{wanted.name} has no grid: run it as it is")
    plain = schema.plain(replace(wanted, grid=None, split="dev", row=None, published={}))
    for values in itertools.product(*grid.values.values()):
        changes = dict(zip(grid.values, values, strict=True))
        mapping = json.loads(json.dumps(plain))
        try:
            shelf.change(mapping, [f"{key}={json.dumps(value)}" for key, value in changes.items()])
            yield Try(changes, schema.parse(Recipe, mapping))
        except ValueError as error:
            raise ValueError(
                f"the grid of {wanted.name} cannot try {_told(changes)}: {error}"
            ) from None


def _run(wanted: Recipe, folder: Path, start: Path | None, alike: list[Job], say: Say) -> Job:
    """All steps of a run, with the trained model of one that was trained alike if there is one."""
    with steps.prepared(wanted, folder, start, say) as run:
        for other in alike:
            steps.borrow(run, other)
        steps.train(run, say)
        steps.generate(run, say)
        steps.score_outputs(run, say)
    return run


def _write(out: Path, by: Metric, tries: list[Try], values: list[float], best: int) -> None:
    rows = [
        {"folder": f"{names.TRIES}/{number:02d}", "changes": one.changes, "value": value}
        for number, (one, value) in enumerate(zip(tries, values, strict=True), 1)
    ]
    record = {
        "by": by.name,
        "signature": str(by.signature),
        "split": "dev",
        "tries": rows,
        "best": best + 1,
    }
    whole.write_json(out / names.GRID, record)
    whole.write_text(out / names.GRID_PAGE, _page(by, rows, best))


def _page(by: Metric, rows: list[dict[str, Any]], best: int) -> str:
    made = []
    for i, row in enumerate(rows):
        value = Cell(by.kind.text(row["value"]), tone="best" if i == best else "")
        made.append(
            (row["folder"], (*(Cell(str(setting)) for setting in row["changes"].values()), value))
        )
    table = Table("", ("try", *rows[0]["changes"], by.name), tuple(made))
    title = f"# {len(rows)} tries on dev, chosen by {by.name}"
    return "\n".join(
        [title, "", *text_tables.markdown_lines(table), f"Signature: `{by.signature}`", ""]
    )


def _told(changes: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in changes.items())
