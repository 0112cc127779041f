"""What ``score`` and ``compare`` share: their options, how systems are read, the progress bar, the notes."""

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from dwindle.folder.outputs import Outputs
    from dwindle.metrics.score import Metric, Statistics
    from dwindle.runs.job import Job

Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        "-m",
        help="Names with commas between, options after a colon: rouge,rouge:recall,bleu:moses-de. "
        "Default: what the files allow of rouge, repetition, novelty, layout, length, world.",
    ),
]
Hypotheses = Annotated[list[Path] | None, typer.Option("--hyp", help="Line-aligned outputs; once a system.")]
References = Annotated[list[Path] | None, typer.Option("--ref", help="References aligned with --hyp; may repeat.")]
Sources = Annotated[Path | None, typer.Option("--src", help="Sources aligned with --hyp.")]
Lead = Annotated[bool, typer.Option("--lead3", help="Also take LEAD-3, the first 3 sentences, as a system.")]
Resamples = Annotated[int, typer.Option("--resamples", help="Bootstrap resamples.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the resamples.")]
Workers = Annotated[int | None, typer.Option("--workers", help="Processes; results do not depend on it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object a system.")]


def need_metrics() -> None:
    """Say what to install when the room cannot be entered."""
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError:
        raise ValueError("scoring needs numpy: type pip install 'dwindle[metrics]'") from None


def systems(
    files: list[Path] | None,
    hypotheses: list[Path] | None,
    references: list[Path] | None,
    sources: Path | None,
    lead3: bool,
) -> "list[Outputs]":
    """Read every system that was named, and LEAD-3 of the first if it is wanted."""
    from dwindle.folder import names, outputs
    from dwindle.metrics import layout

    if bool(files) == bool(hypotheses):
        raise ValueError("name outputs.jsonl files, or line-aligned files with --hyp and --ref: one of the two")
    if files and (references or sources):
        raise ValueError("--ref and --src go with --hyp: an outputs.jsonl has its own references and sources")
    read = [outputs.read(file / names.OUTPUTS if file.is_dir() else file) for file in files or []]
    read += [outputs.read_lines(h, references or [], sources) for h in hypotheses or []]
    return [*read, layout.lead3(read[0])] if lead3 else read


def runs(files: list[Path] | None) -> "dict[str, Job]":
    """The runs among what was named, by the name of their outputs."""
    folders = [file for file in files or [] if (file / "recipe.yaml").is_file()]
    if not folders:
        return {}
    from dwindle.folder import names
    from dwindle.runs import job

    return {str(folder / names.OUTPUTS): job.find(folder) for folder in folders}


def chosen(names: str | None, system: "Outputs") -> "list[Metric]":
    """The metrics of these names; without names, all that need nothing the items lack."""
    from dwindle.metrics import catalogue

    if names is not None:
        return catalogue.find([name.strip() for name in names.split(",") if name.strip()])
    have = {"repetition", "length"}
    if all(item.references for item in system.items):
        have |= {"rouge"}
    if all(item.source is not None for item in system.items):
        have |= {"novelty", "layout"}
    if all(item.extra.get("gold") is not None for item in system.items):
        have |= {"world"}
    return catalogue.find([name for name in catalogue.FAMILIES if name in have])


def reduced(system: "Outputs", metrics: "list[Metric]", workers: int | None) -> "Statistics":
    """The statistics of a system, with a bar on a terminal, and then what the user should know of its
    items."""
    from dwindle.folder import machine
    from dwindle.metrics import score

    with _bar(system.name, len(system), metrics) as advance:
        statistics = score.reduce(system, metrics, workers or machine.cores(), advance)
    for note in _notes(system, metrics):
        typer.echo(f"dwindle: {note}", err=True)
    return statistics


def console() -> Console:
    """Where tables go; a pipe has no width to squeeze them into."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=240)


def label(system: int) -> str:
    """A short name for the column of a system: a, b, ... z, 27, ..."""
    return chr(ord("a") + system) if system < 26 else str(system + 1)


def number(value: float) -> str:
    """Three decimals; more for a small number."""
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.1 else f"{value:.{2 - math.floor(math.log10(abs(value)))}f}"


def _notes(system: "Outputs", metrics: "list[Metric]") -> Iterator[str]:
    empty = system.empty
    if empty:
        yield (
            f"{len(empty)} of {len(system)} hypotheses of {system.name} are empty and score 0 "
            f"(the first is id {empty[0].id!r})"
        )
    leads = any(metric.name.startswith("layout") for metric in metrics) or system.name.startswith("LEAD-3")
    if leads and not any("\n" in (item.source or "") for item in system.items):
        yield f"no source of {system.name} has a newline, so its first three sentences are all of it"


@contextlib.contextmanager
def _bar(name: str, items: int, metrics: "list[Metric]") -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, nothing in a pipe."""
    from dwindle.metrics.score import ItemReduction

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done: None
        return
    reductions = {metric.reduction for metric in metrics}
    passes = sum(not isinstance(r, ItemReduction) for r in reductions)
    passes += any(isinstance(r, ItemReduction) for r in reductions)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        # MoverScore counts pairs, so with several references it runs past this total.
        task = progress.add_task(name, total=items * passes)
        yield lambda done: progress.advance(task, done)
