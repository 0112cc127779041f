"""Tables on a terminal. Rows have names, and columns are packed into as many blocks as the width needs: no number and
no name is ever cut, on 80 columns or on 40.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

_GAP = "  "
_PIPE = 240  # a pipe has no width to squeeze a table into


@dataclass(frozen=True)
class Column:
    """A heading and a cell for each row, in rich's markup."""

    heading: str
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        return max(_length(text) for text in (self.heading, *self.cells))


def console() -> Console:
    """Where tables go."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=_PIPE)


def show(out: Console, names: Sequence[str], columns: Sequence[Column]) -> None:
    """Print rows (names in markup) with their columns, in blocks that fit."""
    left = max(map(_length, names))
    for k, block in enumerate(_blocks(columns, out.width - left)):
        if k:
            out.print()
        _line(out, left, "", [f"[bold]{c.heading}[/]" for c in block], block)
        for i, name in enumerate(names):
            _line(out, left, name, [c.cells[i] for c in block], block)


def _blocks(columns: Sequence[Column], room: int) -> list[list[Column]]:
    """Columns that stand side by side: as many as there is room for, one at least."""
    blocks: list[list[Column]] = []
    used = 0
    for column in columns:
        width = len(_GAP) + column.width
        if not blocks or used + width > room:
            blocks.append([])
            used = 0
        blocks[-1].append(column)
        used += width
    return blocks


def _line(out: Console, left: int, name: str, cells: Sequence[str], block: Sequence[Column]) -> None:
    """Names to the left, cells to the right."""
    line = name + " " * (left - _length(name))
    for cell, column in zip(cells, block, strict=True):
        line += _GAP + " " * (column.width - _length(cell)) + cell
    out.print(line.rstrip(), soft_wrap=True)


def _length(markup: str) -> int:
    return Text.from_markup(markup).cell_len
