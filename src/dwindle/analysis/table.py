"""One table, whoever prints it: a caption, columns, rows of cells, notes. Knows nothing of what its numbers mean."""

from dataclasses import dataclass
from typing import Literal

Tone = Literal["", "better", "worse", "quiet"]


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

    @property
    def marked(self) -> bool:
        """Whether a cell is told to be better or worse. How that is shown, whoever prints the table says."""
        return any(cell.tone in ("better", "worse") for _, cells in self.rows for cell in cells)


NOTHING = Cell("–", tone="quiet")
