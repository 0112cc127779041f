"""The figures in the paper's tables, from ``paper.json``, on the scales of our metrics.

Everything that shows or checks a printed figure reads it here: reports, recipes, the audit.
"""

import functools
import json
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class PaperRow:
    """One system. ``run`` is the recipe that is shipped for it; None: it was only reported."""

    system: str
    run: str | None
    values: tuple[float | None, ...]
    """A figure for each of the table's metrics, where there is one."""
    confidence: float | None = None
    """Table 4: the share of bootstrap resamples, in percent, in which it is above the baseline."""
    pretraining: str | None = None
    parameters: str | None = None


@dataclass(frozen=True)
class PaperTable:
    """One table of results. ``items``: how many test items it is of, if the paper says so."""

    table: str
    about: str
    items: int | None
    metrics: tuple[str, ...]
    rows: tuple[PaperRow, ...]

    def row(self, system: str) -> PaperRow:
        return next(row for row in self.rows if row.system == system)


@functools.cache
def tables() -> tuple[PaperTable, ...]:
    """Every table of results, in order; Table 4 is two, a language each."""
    text = resources.files("dwindle.metrics").joinpath("paper.json").read_text(encoding="utf-8")
    return tuple(
        PaperTable(
            **(table | {"metrics": tuple(table["metrics"])})
            | {
                "rows": tuple(
                    PaperRow(**(row | {"values": tuple(row["values"])})) for row in table["rows"]
                )
            }
        )
        for table in json.loads(text)
    )


def table(number: str) -> PaperTable:
    """The first of the tables with this number."""
    return next(table for table in tables() if table.table == number)


def figures(run: str) -> dict[str, float]:
    """All that the paper printed of the system that this recipe is shipped for, by metric."""
    found: dict[str, float] = {}
    for one in tables():
        for row in one.rows:
            if row.run == run:
                found |= {
                    m: v for m, v in zip(one.metrics, row.values, strict=True) if v is not None
                }
    return found
