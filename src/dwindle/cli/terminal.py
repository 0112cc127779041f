"""Tables and progress on a terminal.

Rows have names, and columns are packed into as many blocks as the width needs: no number and no
name is ever cut, on 80 columns or on 40. Long work shows a bar with its rate and the time that is
left, on standard error; where that is no terminal, a line now and then.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.table import Column as TableColumn
from rich.text import Text

if TYPE_CHECKING:
    from dwindle.metrics.table import Cell, Table

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
    """The console that tables are printed to."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=_PIPE)


def check_apart(target: Path, read: Iterable[Path]) -> None:
    """Refuse to write a file over one that it is made from."""
    if target.resolve() in {file.resolve() for file in read}:
        raise ValueError(f"{target} is read as well: give what is written a name of its own")


def show(out: Console, names: Sequence[str], columns: Sequence[Column]) -> None:
    """Print rows (names in markup) with their columns, in blocks that fit."""
    left = max(map(_length, names))
    for k, block in enumerate(_blocks(columns, out.width - left)):
        if k:
            out.print()
        _line(out, left, "", [f"[bold]{c.heading}[/]" for c in block], block)
        for i, name in enumerate(names):
            _line(out, left, name, [c.cells[i] for c in block], block)


def show_groups(out: Console, table: "Table") -> None:
    """Print a table whose rows come in groups of one name: the name as a heading, then a line for
    each row of it.

    The first cell names the line.
    """
    lines: list[tuple[str, ...]] = []
    for k, (name, (first, *cells)) in enumerate(table.rows):
        if not k or name != table.rows[k - 1][0]:
            lines.append((f"[cyan]{escape(name)}[/]", *[""] * len(cells)))
        lines.append((f"  {escape(first.text)}", *map(_markup, cells)))
    names, *columns = zip(*lines, strict=True)
    show(
        out, names, [Column(escape(h), c) for h, c in zip(table.columns[2:], columns, strict=True)]
    )


_STYLES = {"better": "bold green", "worse": "bold red", "best": "bold", "quiet": "dim"}


def _markup(cell: "Cell") -> str:
    text = f"[{_STYLES.get(cell.tone, 'not dim')}]{escape(cell.text)}[/]" if cell.text else ""
    return f"{text} [dim]({escape(cell.note)})[/]" if cell.note else text


Tell = Callable[[str, int, int], None]
"""Called with the stage of some work, how much of it is done, and how much there is."""
FIRST, EVERY = 10.0, 30.0
"""Seconds until the first line of a stage in a pipe, and between two lines."""


@contextlib.contextmanager
def progress() -> Iterator[Tell]:
    """Shows the progress of some work; the block calls what it yields."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield ProgressLines(lambda line: typer.echo(f"dwindle: {line}", err=True))
        return
    with bar(console) as shown:
        tasks: dict[str, TaskID] = {}

        def tell(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = shown.add_task(stage, total=total, first=done)
            shown.update(tasks[stage], completed=done, total=total)

        yield tell


def bar(console: Console) -> Progress:
    """A line a stage: its name, cut if there is no room for it, a bar, how much is done, the rate,
    the time left."""
    name = TextColumn(
        "{task.description}", table_column=TableColumn(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    rate, left = (kind(table_column=TableColumn(no_wrap=True)) for kind in (_Rate, _Left))
    columns = (name, BarColumn(bar_width=16), MofNCompleteColumn(), rate, left)
    return Progress(*columns, console=console, transient=True, expand=True)


class _Rate(ProgressColumn):
    """Items a second since the first word of a stage: work may come in blocks, which a look at the
    last few seconds would take for speed."""

    def render(self, task: Task) -> Text:
        speed = _speed(task)
        return Text(_rate(speed) if speed else "", style="dim")


class _Left(ProgressColumn):
    """The time that is left at that rate."""

    def render(self, task: Task) -> Text:
        speed, rest = _speed(task), (task.total or 0) - task.completed
        return Text(f"{_duration(rest / speed)} left" if speed and rest > 0 else "", style="cyan")


def _speed(task: Task) -> float:
    done = task.completed - task.fields.get("first", 0)
    return done / task.elapsed if done > 0 and task.elapsed else 0.0


class ProgressLines:
    """Progress as lines of text, not too many: quick work says nothing."""

    def __init__(
        self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._clock = say, clock
        self._stage, self._start, self._next, self._first = "", 0.0, 0.0, 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = self._clock()
        if stage != self._stage:
            self._stage, self._start, self._next, self._first = stage, now, now + FIRST, done
        if now < self._next:
            return
        self._next = now + EVERY
        rate = (done - self._first) / (now - self._start)
        left = f", about {_duration((total - done) / rate)} left" if rate and done < total else ""
        self._say(f"{stage}: {done:,} of {total:,}, {_rate(rate)}{left}")


def _rate(rate: float) -> str:
    """The rate as a text: per second, or per minute if it is low."""
    return f"{rate:.1f} a second" if rate >= 1 else f"{60 * rate:.1f} a minute"


def _duration(seconds: float) -> str:
    """Seconds, minutes or hours, as they are said."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


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


def _line(
    out: Console, left: int, name: str, cells: Sequence[str], block: Sequence[Column]
) -> None:
    """Names to the left, cells to the right."""
    line = name + " " * (left - _length(name))
    for cell, column in zip(cells, block, strict=True):
        line += _GAP + " " * (column.width - _length(cell)) + cell
    out.print(line.rstrip(), soft_wrap=True)


def _length(markup: str) -> int:
    return Text.from_markup(markup).cell_len
