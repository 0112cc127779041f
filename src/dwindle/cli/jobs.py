"""Code that the verbs that run recipes share: checks of what is installed, reports, stopping,
tables of scores."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from dwindle.cli import terminal
from dwindle.cli.terminal import Column
from dwindle.system import machine

if TYPE_CHECKING:
    from dwindle.runs.job import Job

Changes = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...", help="Changes, such as training.steps=100.", show_default=False
    ),
]


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Say what to install when a room cannot be entered, and how to go on after Ctrl-C."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("dwindle"):
            raise
        raise ValueError(
            f"recipes need {error.name}: type pip install 'dwindle[report,runs]'"
        ) from None
    except KeyboardInterrupt:
        typer.echo("\ndwindle: stopped, continue with the same command", err=True)
        raise typer.Exit(130) from None


def say(sentence: str) -> None:
    """Report on stderr, once for all processes."""
    if machine.is_first():
        typer.echo(f"dwindle: {sentence}", err=True)


def show_scores(run: "Job") -> None:
    """The scores of a run, beside the paper's figures where the recipe has them."""
    from dwindle.metrics.catalogue import kind

    scores = run.scores
    published = run.recipe.published
    rows = []
    for s in scores.records:
        shown = kind(s["metric"])
        theirs = shown.text(published[s["metric"]]) if s["metric"] in published else ""
        rows.append(
            (shown.text(s["value"]), f"[dim]{shown.interval(s['low'], s['high'])}[/]", theirs)
        )
    columns = [
        Column(h, c)
        for h, c in zip(
            ("value", "95 % interval", "published"), zip(*rows, strict=True), strict=True
        )
    ]
    console = terminal.console()
    names = [f"[cyan]{escape(s['metric'])}[/]" for s in scores.records]
    terminal.show(console, names, columns if published else columns[:2])
    console.print(f"[dim]{scores.items} items. Signatures and all else: {escape(str(run))}")
