"""``dwindle score FILE...``: every metric of outputs, with confidence intervals and signatures."""

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from dwindle.cli import corpora, systems, terminal
from dwindle.cli.terminal import Column

if TYPE_CHECKING:
    from dwindle.metrics.score import Score
    from dwindle.runfiles.outputs import Outputs


def score(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="outputs.jsonl files, or folders of runs. A pattern in quotes, such as "
            "'outputs/*.jsonl', is one system in several files, JSONL or Parquet.",
            show_default=False,
        ),
    ] = None,
    metrics: systems.Metrics = None,
    hyp: systems.Hypotheses = None,
    ref: systems.References = None,
    src: systems.Sources = None,
    lead3: systems.Lead = False,
    halves: Annotated[
        bool,
        typer.Option(
            "--halves", help="Also score the items with short and with long sources, and the gap."
        ),
    ] = False,
    resamples: systems.Resamples = 1000,
    seed: systems.Seed = 1,
    workers: systems.Workers = None,
    names: systems.Names = None,
    signatures: systems.Signatures = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the value of each item alone: a file for each of FILES, with its "
            "name and format.",
            show_default=False,
        ),
    ] = None,
    ray: corpora.Ray = None,
    as_json: systems.AsJson = False,
) -> None:
    """Score outputs: one JSON object per line with id, source, reference or references, and
    hypothesis.

    Metrics are named by group, or one by one, such as rouge1 or omission. Options follow a colon:
    rouge:recall, rouge:rouge-score, bleu:moses-de+compound, cider:spaces, mover:ENCODER,
    repetition:micro, length:ratio, length:source, entropy:FILE.npz.

    The folder of a run is scored by the metrics of its recipe unless others are named; its
    scores.json gets the scores and keeps those of other metrics.

    With --ray, the workers of a cluster score the items, MoverScore's encoder included; a command
    that was killed goes on when it is typed again.
    """
    systems.need_metrics()
    from dwindle.metrics import catalogue
    from dwindle.metrics import halves as by_length
    from dwindle.metrics import spread as spreading
    from dwindle.metrics.significance import intervals
    from dwindle.runfiles import scores as kept

    engine = None if ray is None else corpora.engine(ray)
    runs = systems.runs(files)
    read = systems.systems(files, hyp, ref, src, lead3)
    called = systems.names(read, names)
    spread = spreading.OnCluster(engine, out or read[0].folder or Path()) if engine else None
    scored: list[tuple[str, int, list[Score]]] = []
    with contextlib.ExitStack() as stack:
        if out:
            stack.enter_context(corpora.output_folder(out, _inputs(read, out)))
        if ray is not None and len(read) > 1:
            stack.enter_context(corpora.connected(ray))
        for system in read:
            run = runs.get(system.name)
            own = ",".join(catalogue.ready(run.recipe.metrics)) if run else None
            wanted = systems.chosen(own if metrics is None else metrics, system)
            statistics = systems.reduced(system, wanted, workers, spread)
            scores = intervals(statistics, wanted, resamples, seed)
            if run:
                kept.add(run.path, len(system), (score.record for score in scores))
            if out:
                spreading.write_items(statistics, wanted, out)
            if halves:
                scores += intervals(
                    by_length.halved(statistics), by_length.metrics(wanted), resamples, seed
                )
            scored.append((system.name, len(system), scores))
        if spread:
            spread.clear()
    if as_json:
        for name, items, scores in scored:
            record = {"file": name, "items": items, "scores": [s.record for s in scores]}
            typer.echo(json.dumps(record, allow_nan=False))
    else:
        _print(
            called,
            [systems.about(system) for system in read],
            [scores for _, _, scores in scored],
            signatures,
        )


def _inputs(read: "list[Outputs]", out: Path) -> list[Path]:
    """The files of these systems, whose items get a file each in ``out``."""
    for system in read:
        if not system.files:
            raise ValueError(
                f"--out writes a file for each JSONL or Parquet file, and {system.name} is none: "
                "leave --out out"
            )
        corpora.check_formats([path for path, _ in system.files])
    files = [path for system in read for path, _ in system.files]
    for file in files:
        if (out / file.name).exists():
            raise ValueError(f"{out / file.name} is there already: name another folder with --out")
    return files


def _print(
    names: list[str], abouts: list[str], scored: "list[list[Score]]", signatures: bool
) -> None:
    """One system is a list of metrics; of several, each is a row, with the metrics in columns."""
    from dwindle.metrics.catalogue import with_arrow

    out = terminal.console()
    by_system = [{s.metric: s for s in scores} for scores in scored]
    metrics = list(dict.fromkeys(metric for scores in by_system for metric in scores))
    headings = [escape(with_arrow(metric)) for metric in metrics]
    for name, about in zip(names, abouts, strict=True):
        out.print(f"[bold]{escape(name)}[/] ({escape(about)})", soft_wrap=True)
    out.print()
    if len(scored) == 1:
        values, bounds = zip(
            *(_value_and_interval(score) for score in by_system[0].values()), strict=True
        )
        rows = [f"[cyan]{heading}[/]" for heading in headings]
        terminal.show(out, rows, [Column("value", values), Column("95 % interval", bounds)])
        said = "Intervals by bootstrap"
    else:
        rows = [f"[bold]{escape(name)}[/]" for name in names]
        cells = [
            tuple(_value_and_half(scores.get(metric)) for scores in by_system) for metric in metrics
        ]
        terminal.show(
            out, rows, [Column(f"[cyan]{h}[/]", c) for h, c in zip(headings, cells, strict=True)]
        )
        said = "Value ± half of its 95 % interval (bootstrap)"
    said += "; ↑ more is better, ↓ less is."
    out.print(
        f"\n[dim]{said}{'' if signatures else ' How each number was made: --signatures.'}",
        soft_wrap=True,
    )
    for signature in (
        dict.fromkeys(str(s.signature) for scores in scored for s in scores) if signatures else ()
    ):
        out.print(f"[dim]{escape(signature)}", soft_wrap=True)


def _value_and_interval(score: "Score") -> tuple[str, str]:
    from dwindle.metrics.catalogue import kind

    shown = kind(score.metric)
    assert score.low is not None
    assert score.high is not None
    return shown.text(score.value), f"[dim]{shown.interval(score.low, score.high)}[/]"


def _value_and_half(score: "Score | None") -> str:
    from dwindle.metrics.catalogue import kind

    if score is None or score.low is None or score.high is None:
        return ""
    shown = kind(score.metric)
    return f"{shown.text(score.value)} [dim]±{shown.text((score.high - score.low) / 2)}[/]"
