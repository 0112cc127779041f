"""``dwindle compare BASE OTHER...``: which differences are real, for every metric."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from dwindle.cli import systems, terminal
from dwindle.cli.terminal import Column

if TYPE_CHECKING:
    from dwindle.metrics.score import Statistics
    from dwindle.metrics.significance import PairedTest


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
    workers: systems.Workers = None,
    names: systems.Names = None,
    signatures: systems.Signatures = False,
    as_json: systems.AsJson = False,
) -> None:
    """Compare each OTHER with BASE by paired bootstrap and approximate randomisation on the same items.

    p-values are two-sided and corrected across systems (Holm). Metrics: see 'dwindle score --help'.
    """
    systems.need_metrics()
    from dwindle.folder import outputs
    from dwindle.metrics import significance

    read = systems.systems(files, hyp, ref, src, lead3)
    if len(read) < 2:
        raise ValueError("one system alone cannot be compared: name BASE and at least one OTHER")
    called = systems.names(read, names)
    for system in read[1:]:
        outputs.same_items(read[0], system)
    wanted = systems.chosen(metrics, *read)
    base, *others = [systems.reduced(system, wanted, workers) for system in read]
    first = significance.intervals(base, wanted, resamples, seed)
    compared = significance.compare(base, others, wanted, resamples, seed)
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


def _print(names: list[str], abouts: list[str], compared: "list[list[PairedTest]]", signatures: bool) -> None:
    """For each metric a heading, the base, and the others below it."""
    from dwindle.metrics.catalogue import kind

    out = terminal.console()
    for name, about in zip(names, abouts, strict=True):
        out.print(f"[bold]{escape(name)}[/] ({escape(about)})", soft_wrap=True)
    out.print()
    rows: list[tuple[str, ...]] = []
    for column in zip(*compared, strict=True):  # one metric in all systems
        shown = kind(column[0].score.metric)
        heading = f"{column[0].score.metric} {shown.arrow}".rstrip()
        rows.append((f"[cyan]{escape(heading)}[/]", "", "", "", "", "", ""))
        rows.append((f"  {escape(names[0])}", shown.text(column[0].base), "", "", "", "", ""))
        rows += [(f"  {escape(name)}", *_cells(test)) for name, test in zip(names[1:], column, strict=True)]
    called, *cells = zip(*rows, strict=True)
    headings = ("value", "difference", "95 % interval", "wins %", "p (bs)", "p (ar)")
    terminal.show(out, called, [Column(h, c) for h, c in zip(headings, cells, strict=True)])
    out.print(
        "\n[dim]wins: resamples in which the system is above the base; p: two-sided, by bootstrap (bs) and approximate "
        "randomisation (ar), after Holm. ↑ more is better, ↓ less is; coloured where it is clearly better or worse."
        f"{'' if signatures else ' How each number was made: --signatures.'}"
    )
    for test in compared[0] if signatures else ():
        out.print(f"[dim]{escape(str(test.score.signature))}", soft_wrap=True)


def _cells(test: "PairedTest") -> tuple[str, ...]:
    from dwindle.metrics.catalogue import kind

    shown = kind(test.score.metric)
    clear = test.holm_randomisation < 0.05 and not test.low <= 0 <= test.high
    good = test.difference * shown.better
    colour = (
        "bold" if clear and not good else "bold green" if clear and good > 0 else "bold red" if clear else "not dim"
    )
    return (
        shown.text(test.score.value),
        f"[{colour}]{shown.text(test.difference, sign=True)}[/]",
        f"[dim]{shown.interval(test.low, test.high)}[/]",
        f"{100 * test.wins:.1f}",
        *(f"{p:.3f}" for p in (test.holm_bootstrap, test.holm_randomisation)),
    )
