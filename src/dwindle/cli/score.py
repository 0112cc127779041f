"""``dwindle score FILE...``: every metric of a file of outputs, with confidence intervals and signatures."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from dwindle.cli import scoring

if TYPE_CHECKING:
    from dwindle.metrics.score import Score


def score(
    files: Annotated[
        list[Path] | None, typer.Argument(help="outputs.jsonl files, or folders of runs.", show_default=False)
    ] = None,
    metrics: scoring.Metrics = None,
    hyp: scoring.Hypotheses = None,
    ref: scoring.References = None,
    src: scoring.Sources = None,
    lead3: scoring.Lead = False,
    halves: Annotated[
        bool, typer.Option("--halves", help="Also score the items with short and with long sources.")
    ] = False,
    resamples: scoring.Resamples = 1000,
    seed: scoring.Seed = 1,
    workers: scoring.Workers = None,
    as_json: scoring.AsJson = False,
) -> None:
    """Score outputs: one JSON object a line with id, source, reference (or references), hypothesis.

    Metrics: rouge, bleu, cider, cider-d, mover, repetition, novelty, copied, layout, length, entropy, world,
    or one of a family, such as rouge1 or omission. Options follow a colon: rouge:recall, rouge:rouge-score,
    bleu:moses-de+compound, cider:words, mover:ENCODER, repetition:micro, length:ratio, entropy:FILE.npz.

    The folder of a run is scored by the metrics of its recipe, and its scores.json is written.
    """
    scoring.need_metrics()
    from dwindle.folder import scores as kept
    from dwindle.metrics import halves as by_length
    from dwindle.metrics.significance import intervals

    scored: list[tuple[str, int, list[Score]]] = []
    runs = scoring.runs(files) if metrics is None else {}
    for system in scoring.systems(files, hyp, ref, src, lead3):
        run = runs.get(system.name)
        wanted = scoring.chosen(",".join(run.recipe.metrics) if run else metrics, system)
        statistics = scoring.reduced(system, wanted, workers)
        scores = intervals(statistics, wanted, resamples, seed)
        if run:
            kept.write(run.path, len(system), (score.record for score in scores))
        for half, part in by_length.halves(statistics).items() if halves else ():
            scores += intervals(part, [by_length.renamed(metric, half) for metric in wanted], resamples, seed)
        scored.append((system.name, len(system), scores))
    if as_json:
        for name, items, scores in scored:
            record = {"file": name, "items": items, "scores": [s.record for s in scores]}
            typer.echo(json.dumps(record, allow_nan=False))
    else:
        _print(scored)


def _print(scored: "list[tuple[str, int, list[Score]]]") -> None:
    """Which system is which, a table with a row a metric and a column a system, then the signatures."""
    console = scoring.console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric", style="cyan", no_wrap=True)
    for k, (name, items, _) in enumerate(scored):
        console.print(f"[bold]{scoring.label(k)}[/] {escape(name)} ({items} items)", soft_wrap=True)
        table.add_column(scoring.label(k), justify="right", no_wrap=True)
    by_system = [{s.metric: s for s in scores} for _, _, scores in scored]
    for metric in dict.fromkeys(metric for scores in by_system for metric in scores):
        table.add_row(escape(metric), *(_cell(scores.get(metric)) for scores in by_system))
    console.print(table)
    console.print("\n[dim]Value [95 % interval]. Signatures:")
    for signature in dict.fromkeys(s.signature for _, _, scores in scored for s in scores):
        console.print(f"[dim]{escape(signature)}", soft_wrap=True)


def _cell(score: "Score | None") -> str:
    if score is None or score.low is None or score.high is None:
        return ""
    low, high = scoring.number(score.low), scoring.number(score.high)
    return f"{scoring.number(score.value)} [dim]{escape(f'[{low}, {high}]')}[/]"
