"""``dwindle compare BASE OTHER...``: which differences are real, for every metric."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape

from dwindle.cli import systems, terminal

if TYPE_CHECKING:
    from dwindle.metrics.score import Statistics
    from dwindle.metrics.significance import PairedTest
    from dwindle.metrics.table import Table


def compare(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="BASE OTHER...", help="outputs.jsonl files.", show_default=False),
    ] = None,
    metrics: systems.Metrics = None,
    hyp: systems.Hypotheses = None,
    ref: systems.References = None,
    src: systems.Sources = None,
    lead3: systems.Lead = False,
    resamples: systems.Resamples = 1000,
    seed: systems.Seed = 1,
    bootstrap: Annotated[
        Literal["centred", "sacrebleu"],
        typer.Option(
            "--bootstrap", help="p (bs): centred, or as sacrebleu has it (twice the error rate)."
        ),
    ] = "centred",
    workers: systems.Workers = None,
    names: systems.Names = None,
    signatures: systems.Signatures = False,
    as_json: systems.AsJson = False,
) -> None:
    """Compare each OTHER with BASE by paired bootstrap and approximate randomisation on the same
    items.

    p-values are two-sided and corrected across systems (Holm). Metrics: see 'dwindle score --help'.
    """
    systems.need_metrics()
    from dwindle.metrics import significance
    from dwindle.runfiles import outputs

    read = systems.systems(files, hyp, ref, src, lead3)
    if len(read) < 2:
        raise ValueError("one system alone cannot be compared: name BASE and at least one OTHER")
    called = systems.names(read, names)
    for system in read[1:]:
        outputs.same_items(read[0], system)
    wanted = systems.chosen(metrics, *read)
    base, *others = [systems.reduced(system, wanted, workers) for system in read]
    first = significance.intervals(base, wanted, resamples, seed)
    compared = significance.compare(base, others, wanted, resamples, seed, bootstrap)
    if as_json:
        _echo(base, [score.record for score in first])
        for other, row in zip(others, compared, strict=True):
            _echo(other, [_record(test) for test in row])
    else:
        _print(called, [systems.about(system) for system in read], compared, signatures)


_KEYS = (
    "base",
    "difference",
    "wins",
    "p_bootstrap",
    "p_randomisation",
    "holm_bootstrap",
    "holm_randomisation",
)


def _record(test: "PairedTest") -> dict[str, Any]:
    more = {"difference_low": test.low, "difference_high": test.high}
    return test.score.record | {key: getattr(test, key) for key in _KEYS} | more


def _echo(statistics: "Statistics", scores: list[dict[str, Any]]) -> None:
    record = {"file": statistics.system.name, "items": len(statistics.system), "scores": scores}
    typer.echo(json.dumps(record, allow_nan=False))


def _print(
    names: list[str], abouts: list[str], compared: "list[list[PairedTest]]", signatures: bool
) -> None:
    """For each metric a heading, the base, and the others below it."""
    out = terminal.console()
    for name, about in zip(names, abouts, strict=True):
        out.print(f"[bold]{escape(name)}[/] ({escape(about)})", soft_wrap=True)
    out.print()
    terminal.show_groups(out, _table(names, compared))
    out.print(
        "\n[dim]wins: resamples in which the system is better than the base; p: two-sided, by "
        "bootstrap (bs) and "
        "approximate randomisation (ar), after Holm. ↑ more is better, ↓ less is; coloured where "
        "it is clearly better or worse."
        f"{'' if signatures else ' How each number was made: --signatures.'}"
    )
    for test in compared[0] if signatures else ():
        out.print(f"[dim]{escape(str(test.score.signature))}", soft_wrap=True)


def _table(names: list[str], compared: "list[list[PairedTest]]") -> "Table":
    """For each metric the base, and the others below it."""
    from dwindle.metrics.catalogue import kind, with_arrow
    from dwindle.metrics.table import Cell, Table

    rows: list[tuple[str, tuple[Cell, ...]]] = []
    for column in zip(*compared, strict=True):  # one metric in all systems
        shown, heading = kind(column[0].metric), with_arrow(column[0].metric)
        rows.append((heading, (Cell(names[0]), Cell(shown.text(column[0].base)), *[Cell()] * 5)))
        for name, test in zip(names[1:], column, strict=True):
            ps = (f"{p:.3f}" for p in (test.holm_bootstrap, test.holm_randomisation))
            wins = f"{100 * (test.wins or 0):.1f}"
            cells = (
                Cell(test.text, tone=test.tone),
                Cell(test.interval, tone="quiet"),
                Cell(wins),
                *map(Cell, ps),
            )
            rows.append((heading, (Cell(name), Cell(shown.text(test.score.value)), *cells)))
    headings = (
        "metric",
        "system",
        "value",
        "difference",
        "95 % interval",
        "wins %",
        "p (bs)",
        "p (ar)",
    )
    return Table("", headings, tuple(rows))
