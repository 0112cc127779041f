"""One table, whoever prints it (caption, columns, rows, notes), and the text of a number in it.

Numbers look the same everywhere: on the terminal, in reports, in Markdown and LaTeX. Knows no
metric.
"""

from dataclasses import dataclass
from typing import Literal

MINUS = "\N{MINUS SIGN}"
_MORE = 2
Tone = Literal["", "better", "worse", "best", "quiet"]


@dataclass(frozen=True)
class Cell:
    """One cell of a table; ``note`` is printed smaller, below or after it."""

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

    @property
    def marked(self) -> bool:
        """True if a cell is marked as better or worse.

        The printer of the table decides how that looks.
        """
        return any(cell.tone in ("better", "worse") for _, cells in self.rows for cell in cells)


NOTHING = Cell("–", tone="quiet")


def number(value: float, decimals: int, sign: bool = False) -> str:
    """The text of a number with ``decimals`` decimals and a true minus sign. A number that is not
    zero does not read as zero: it gets up to two decimals more."""
    enough = next(
        (d for d in range(decimals, decimals + _MORE + 1) if float(f"{value:.{d}f}")), decimals
    )
    text = f"{value:{'+' if sign else ''}.{enough}f}"
    if float(text) == 0:
        text = text.lstrip("+-")
    return text.replace("-", MINUS)


def count(number: int, noun: str) -> str:
    """A number of things: ``1 rater``, ``1,500 raters``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def p_value(p: float) -> str:
    """Three decimals for what is near 0.05, two above."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"
