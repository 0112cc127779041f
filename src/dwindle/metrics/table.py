"""One table, whoever prints it: caption, columns, rows, notes. Knows nothing of its numbers."""

from dataclasses import dataclass
from typing import Literal

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
