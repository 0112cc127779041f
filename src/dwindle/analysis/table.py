"""One table, whoever prints it: a caption, columns, rows of cells, notes. And how a number and a metric are written."""

from dataclasses import dataclass
from typing import Literal

Tone = Literal["", "better", "worse", "quiet"]

_TITLES = {
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "bleu": "BLEU",
    "cider": "CIDEr",
    "cider-d": "CIDEr-D",
    "mover1": "Mover-1",
    "mover2": "Mover-2",
    "layout1": "lead R-1",
    "layout2": "lead R-2",
    "layoutL": "lead R-L",
    "layoutL-reverse": "lead R-L, reversed",
    "length": "words",
    "length:ratio": "words / reference's",
    "copied-share": "copied words %",
    "copied-longest": "longest copy",
    "entropy-raw": "H raw",
    "entropy-raw-even": "H raw / log n",
    "entropy-effective": "H effective",
    "entropy-effective-even": "H effective / log n",
}
_SCALED = {"cider": 100, "cider-d": 100}
"""Papers print CIDEr times 100."""


@dataclass(frozen=True)
class Cell:
    """What stands in a table; ``note`` is smaller, below or after it."""

    text: str = ""
    note: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class Table:
    """Rows are a name and a cell for each column after the first."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    notes: tuple[str, ...] = ()
    over: tuple[tuple[str, int], ...] = ()
    """Headings over several columns and how many, from the second column on."""


NOTHING = Cell("–", tone="quiet")


def title(metric: str) -> str:
    """A metric's name for a column."""
    name, slash, half = metric.partition("/")
    if name in _TITLES:
        shown = _TITLES[name]
    elif name[:-1] in ("repetition", "novelty"):
        shown = f"{name[-1]}-gram"
    else:
        head, colon, option = name.partition(":")
        shown = f"{_TITLES.get(head, head)}{colon and ' '}{option}"
    return f"{shown}, {half}" if slash else shown


def number(metric: str, value: float, sign: bool = False) -> str:
    """A value with the decimals that are usual for its metric; a true minus."""
    head = metric.partition("/")[0].partition(":")[0]
    decimals = 1 if head.startswith(("novelty", "length", "sentences", "copied")) else 3 if head.endswith("even") else 2
    value *= _SCALED.get(head, 1)
    return f"{value:{'+' if sign else ''}.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def interval(metric: str, low: float, high: float) -> str:
    return f"{number(metric, low)} to {number(metric, high)}"


def p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"
