"""``dwindle data stats CORPUS``: how many pairs, how long, how many words, how new the references
are. And a sample."""

import json
import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from typer.core import TyperCommand

from dwindle.cli import systems, terminal

if TYPE_CHECKING:
    from dwindle.data.settings import DataSettings
    from dwindle.metrics.corpus import CorpusStatistics

app = typer.Typer(help="Look at corpora.", no_args_is_help=True, add_completion=False)


@app.command("sample")
def sample() -> None:
    """Print a short article to try a model with: 'dwindle data sample | dwindle coverage MODEL'."""
    from dwindle.data.sample import article

    typer.echo(article())


class Stats(TyperCommand):
    """Its help lists the corpora, which are imported for that alone."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from dwindle.data.load import CORPORA

        self.help = f"{self.help}\n\nCorpora: {', '.join(CORPORA)}."
        super().format_help(ctx, formatter)


@app.command("stats", cls=Stats)
def stats(
    name: Annotated[
        str,
        typer.Argument(
            metavar="CORPUS", help="A corpus, a recipe, or a recipe's file.", show_default=False
        ),
    ],
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Settings of the data, such as size.train=1000.",
            show_default=False,
        ),
    ] = None,
    path: Annotated[str | None, typer.Option(help="Where the corpus is.")] = None,
    splits: Annotated[
        str, typer.Option("--splits", help="Which splits, separated by commas.")
    ] = "train,dev,test",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count a corpus: pairs, mean lengths, vocabulary, and the novelty of its references.

    Novelty n: percent of the references' n-grams that are not in their source.
    """
    systems.need_metrics()
    from dwindle.data.load import load
    from dwindle.metrics.corpus import statistics

    settings = _settings(name, changes or [], path)
    found: dict[str, CorpusStatistics] = {}
    for split in filter(None, splits.split(",")):
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            examples = load(settings, split)  # type: ignore[arg-type]  # load says which splits there are
        for note in notes:
            typer.echo(f"dwindle: {note.message}", err=True)
        with _Bar(f"{settings.corpus} {split}", len(examples)) as advance:
            found[split] = statistics(examples, advance)
    if as_json:
        size = sum(s.pairs for s in found.values())
        record = {
            "corpus": settings.corpus,
            "size": size,
            "splits": {split: asdict(s) for split, s in found.items()},
        }
        typer.echo(json.dumps(record, allow_nan=False))
    else:
        _print(settings.corpus, found)


def _settings(name: str, changes: list[str], path: str | None) -> "DataSettings":
    """The data settings of a corpus's name, or of a recipe."""
    from dwindle.data.load import CORPORA
    from dwindle.data.settings import DataSettings
    from dwindle.runs import schema, shelf

    is_recipe = ".yaml" in name or ".yml" in name or name in shelf.shipped()
    if not is_recipe and name not in CORPORA:
        hint = (
            schema.nearest(name, list(CORPORA))
            or f"choose from {', '.join(CORPORA)}, or name a recipe"
        )
        raise ValueError(f"no corpus is called {name!r}: {hint}")
    whole = dict(shelf.mapping(name).get("data") or {}) if is_recipe else {"corpus": name}
    shelf.change(whole, [change.removeprefix("data.") for change in changes])
    if path is not None:
        whole["path"] = path
    return schema.parse(DataSettings, whole)


class _Bar:
    """A progress bar on a terminal, nothing in a pipe."""

    def __init__(self, what: str, total: int) -> None:
        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )
        self._task = self._progress.add_task(what, total=total)

    def __enter__(self) -> Callable[[int], None]:
        self._progress.start()
        return lambda done: self._progress.advance(self._task, done)

    def __exit__(self, *error: Any) -> None:
        self._progress.stop()


def _print(corpus: str, found: "dict[str, CorpusStatistics]") -> None:
    """A row a figure, a column a split."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(corpus, style="cyan", no_wrap=True)
    for split in found:
        table.add_column(split, justify="right")
    if len(found) > 1:
        table.add_row("size", _whole(sum(statistics.pairs for statistics in found.values())))
    for row, read in _ROWS.items():
        table.add_row(row, *(read(statistics) for statistics in found.values()))
    terminal.console().print(table)


def _whole(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _mean(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


_ROWS: "dict[str, Callable[[CorpusStatistics], str]]" = {
    "pairs": lambda s: _whole(s.pairs),
    "words a source": lambda s: _mean(s.source_words),
    "sentences a source": lambda s: _mean(s.source_sentences),
    "words a reference": lambda s: _mean(s.reference_words),
    "sentences a reference": lambda s: _mean(s.reference_sentences),
    "vocabulary of sources": lambda s: _whole(s.source_vocabulary),
    "vocabulary of references": lambda s: _whole(s.reference_vocabulary),
    **{
        f"novel {n}-grams, %": lambda s, i=n - 1: _mean(s.novelty[i] if s.novelty else None)  # type: ignore[misc]
        for n in range(1, 6)
    },
}
