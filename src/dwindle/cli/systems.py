"""The systems that ``score`` and ``compare`` are about: the options that name them, how they are
read and called, how their items are counted with a bar, and what the user should know of them."""

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dwindle.cli import corpora, terminal

if TYPE_CHECKING:
    from dwindle.metrics.score import Metric, Spread, Statistics
    from dwindle.runfiles.outputs import Outputs
    from dwindle.runs.job import Job


def _groups() -> str:
    """The names of all groups of metrics, for the help."""
    try:
        from dwindle.metrics.catalogue import GROUPS
    except ModuleNotFoundError:  # without numpy, ``need_metrics`` says what to install
        return "see docs/METRICS.md"
    return ", ".join(GROUPS)


Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        "-m",
        help="Names separated by commas, options after a colon: rouge,rouge:recall,bleu:moses-de. "
        f"Groups: {_groups()}. Default: every quick metric that the files allow.",
    ),
]
Hypotheses = Annotated[
    list[Path] | None,
    typer.Option("--hyp", help="Line-aligned outputs; may be repeated, once per system."),
]
References = Annotated[
    list[Path] | None, typer.Option("--ref", help="References aligned with --hyp; may be repeated.")
]
Sources = Annotated[Path | None, typer.Option("--src", help="Sources aligned with --hyp.")]
Lead = Annotated[
    bool, typer.Option("--lead3", help="Also take LEAD-3, the first 3 sentences, as a system.")
]
Resamples = Annotated[int, typer.Option("--resamples", help="Bootstrap resamples.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the resamples.")]
Workers = Annotated[
    int | None, typer.Option("--workers", help="Number of processes; it does not change results.")
]
Names = Annotated[
    str | None,
    typer.Option(
        "--names", help="Names for the systems, separated by commas. Default: their files."
    ),
]
Signatures = Annotated[
    bool, typer.Option("--signatures", help="Also print how every number was made.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per system.")]


_ATTACHED = re.compile(r"\w[.,;:!?](\s|$)")


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
    from dwindle.metrics import layout
    from dwindle.runfiles import names, outputs, tables

    check_named(files, hypotheses, references, sources)
    for file in [
        *(files or []),
        *(hypotheses or []),
        *(references or []),
        *([sources] if sources else []),
    ]:
        if not file.exists() and not corpora.is_pattern(file):
            raise ValueError(f"{file} is not there: name a file of outputs, or the folder of a run")
        if file.is_dir() and not (
            files and ((file / names.OUTPUTS).is_file() or tables.is_table(file))
        ):
            raise ValueError(
                f"{file} is a folder without {names.OUTPUTS}: name a file, or the folder of a "
                "finished run"
            )
    read = []
    for file in files or []:
        if corpora.is_pattern(file):
            several = corpora.matched(file)
            corpora.check_formats(several)
            read.append(outputs.read_several(str(file), several))
        else:
            own = file / names.OUTPUTS
            read.append(outputs.read(own if own.is_file() else file))
    read += [outputs.read_lines(h, references or [], sources) for h in hypotheses or []]
    return [*read, layout.lead3(read[0])] if lead3 else read


def check_named(
    files: list[Path] | None,
    hypotheses: list[Path] | None,
    references: list[Path] | None,
    sources: Path | None,
) -> None:
    """Refuse files of both kinds, and none at all."""
    if bool(files) == bool(hypotheses):
        raise ValueError(
            "name outputs.jsonl files, or line-aligned files with --hyp and --ref: one of the two"
        )
    if files and (references or sources):
        raise ValueError(
            "--ref and --src go with --hyp: an outputs.jsonl has its own references and sources"
        )


def runs(files: list[Path] | None) -> "dict[str, Job]":
    """The runs among what was named, by the name of their outputs."""
    folders = [file for file in files or [] if (file / "recipe.yaml").is_file()]
    if not folders:
        return {}
    from dwindle.runfiles import names
    from dwindle.runs import job

    return {str(folder / names.OUTPUTS): job.find(folder) for folder in folders}


def chosen(names: str | None, *systems: "Outputs") -> "list[Metric]":
    """The metrics of these names; without names, those that are usual for such outputs."""
    from dwindle.metrics import catalogue

    if names is not None:
        return catalogue.find([name.strip() for name in names.split(",") if name.strip()])
    return catalogue.defaults(*systems)


def reduced(
    system: "Outputs", metrics: "list[Metric]", workers: int | None, spread: "Spread | None" = None
) -> "Statistics":
    """The statistics of a system, with progress, then what the user should know of its items."""
    from dwindle.metrics import score
    from dwindle.system import machine

    with _bar(system.name, len(system), metrics) as advance:
        statistics = score.reduce(system, metrics, workers or machine.cores(), advance, spread)
    for note in _notes(system, metrics):
        typer.echo(f"dwindle: {note}", err=True)
    return statistics


def about(system: "Outputs") -> str:
    """The number of a system's outputs, whether they are of synthetic data, and their path."""
    synthetic = ", synthetic data" if "gold" in system.has else ""
    return f"{len(system):,} items{synthetic}, {system.name}"


def names(read: "list[Outputs]", given: str | None) -> list[str]:
    """The systems' names in tables: as the user says, or after their files and folders."""
    if given is None:
        from dwindle.analysis.arms import place, told_apart

        return told_apart([place(system.name) for system in read])
    asked = [name.strip() for name in given.split(",")]
    if len(asked) != len(read) or not all(asked):
        raise ValueError(
            f"--names has {len(asked)} names for {len(read)} systems: give one for each, "
            "separated by commas"
        )
    return asked


def _notes(system: "Outputs", metrics: "list[Metric]") -> Iterator[str]:
    empty = system.empty
    if empty:
        yield (
            f"{len(empty)} of {len(system)} hypotheses of {system.name} are empty and score 0 "
            f"(the first is id {empty[0].id!r})"
        )
    spaced = next(
        (metric for metric in metrics if dict(metric.settings).get("tok") == "spaces"), None
    )
    if spaced:
        texts = [text for item in system.items for text in (item.hypothesis, *item.references)]
        raw = sum(bool(_ATTACHED.search(text)) for text in texts)
        if raw:
            yield (
                f"{spaced.name} counts what stands between spaces, but {raw} of {len(texts)} "
                f"texts of {system.name} "
                f"have punctuation attached to words: tokenise them, or take {spaced.kind.name}, "
                "which counts words"
            )
    leads = any(metric.name.startswith("layout") for metric in metrics) or system.name.startswith(
        "LEAD-3"
    )
    if leads and not any("\n" in (item.source or "") for item in system.items):
        yield (
            f"no source of {system.name} has a newline, so its first three sentences are all of it"
        )


@contextlib.contextmanager
def _bar(name: str, items: int, metrics: "list[Metric]") -> Iterator[Callable[[int], None]]:
    """Progress over the items of a system, which are passed over once for each way of counting."""
    from dwindle.metrics.score import passes

    total, counted = items * passes(metrics), 0
    with terminal.progress() as tell:

        def advance(done: int) -> None:
            nonlocal counted
            counted += done
            # MoverScore counts pairs, so with several references it runs past this total.
            tell(f"scoring {name}", counted, max(total, counted))

        yield advance
