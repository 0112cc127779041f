"""``dwindle compare BASE OTHER...``: which differences are real, for every metric."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from dwindle.cli import scoring

if TYPE_CHECKING:
    from dwindle.metrics.score import Statistics
    from dwindle.metrics.significance import Comparison


def compare(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="BASE OTHER...", help="outputs.jsonl files.", show_default=False),
    ] = None,
    metrics: scoring.Metrics = None,
    hyp: scoring.Hypotheses = None,
    ref: scoring.References = None,
    src: scoring.Sources = None,
    lead3: scoring.Lead = False,
    resamples: scoring.Resamples = 1000,
    seed: scoring.Seed = 1,
    workers: scoring.Workers = None,
    as_json: scoring.AsJson = False,
) -> None:
    """Compare each OTHER with BASE by paired bootstrap and approximate randomisation on the same items.

    p-values are two-sided and corrected across systems (Holm). Metrics: see 'dwindle score --help'.
    """
    scoring.need_metrics()
    from dwindle.folder import outputs
    from dwindle.metrics import significance

    read = scoring.systems(files, hyp, ref, src, lead3)
    if len(read) < 2:
        raise ValueError("one system alone cannot be compared: name BASE and at least one OTHER")
    for system in read[1:]:
        outputs.same_items(read[0], system)
    wanted = scoring.chosen(metrics, read[0])
    base, *others = [scoring.reduced(system, wanted, workers) for system in read]
    first = significance.intervals(base, wanted, resamples, seed)
    compared = significance.compare(base, others, wanted, resamples, seed)
    if as_json:
        _echo(base, [score.record for score in first])
        for other, row in zip(others, compared, strict=True):
            _echo(other, [_record(comparison) for comparison in row])
    else:
        _print(base.system.name, [other.system.name for other in others], compared)


_KEYS = (
    "base",
    "difference",
    "wins",
    "p_bootstrap",
    "p_randomisation",
    "holm_bootstrap",
    "holm_randomisation",
)


def _record(comparison: "Comparison") -> dict[str, Any]:
    more = {"difference_low": comparison.low, "difference_high": comparison.high}
    return comparison.score.record | {key: getattr(comparison, key) for key in _KEYS} | more


def _echo(statistics: "Statistics", scores: list[dict[str, Any]]) -> None:
    record = {"file": statistics.system.name, "items": len(statistics.system), "scores": scores}
    typer.echo(json.dumps(record, allow_nan=False))


def _print(base: str, others: list[str], compared: "list[list[Comparison]]") -> None:
    """One table: a row for each metric and system."""
    console = scoring.console()
    console.print(f"[bold]base[/] {escape(base)}", soft_wrap=True)
    for k, name in enumerate(others):
        console.print(f"[bold]{scoring.label(k)}[/] {escape(name)}", soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric", style="cyan", no_wrap=True)
    table.add_column("system", justify="center", no_wrap=True)
    for column in ("base", "value", "difference", "wins %", "p (bs)", "p (ar)"):
        table.add_column(column, justify="right", no_wrap=True)
    for column_of in zip(*compared, strict=True):
        for k, c in enumerate(column_of):
            low, high = scoring.number(c.low), scoring.number(c.high)
            table.add_row(
                escape(c.score.metric),
                scoring.label(k),
                scoring.number(c.base),
                scoring.number(c.score.value),
                f"{c.difference:+.3f} [dim]{escape(f'[{low}, {high}]')}[/]",
                f"{100 * c.wins:.1f}",
                _p(c.holm_bootstrap),
                _p(c.holm_randomisation),
            )
    console.print(table)
    console.print(
        "\n[dim]wins: resamples in which the system is above the base; difference with its 95 % interval;\n"
        "p: two-sided, by bootstrap (bs) and approximate randomisation (ar), after Holm. Signatures:"
    )
    for comparison in compared[0]:
        console.print(f"[dim]{escape(comparison.score.signature)}", soft_wrap=True)


def _p(value: float) -> str:
    return f"[bold green]{value:.4f}[/]" if value < 0.05 else f"{value:.4f}"
