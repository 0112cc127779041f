"""``dwindle arena RECIPE...``: several recipes from one checkpoint, several seeds, one table of differences."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from dwindle.cli import terminal
from dwindle.cli.jobs import guarded, say
from dwindle.cli.terminal import Column
from dwindle.folder import processes
from dwindle.metrics.numbers import MINUS


def arena(
    arms: Annotated[
        list[str],
        typer.Argument(metavar="RECIPE... [KEY=VALUE]...", help="Recipes, and changes for all.", show_default=False),
    ],
    seeds: Annotated[int, typer.Option(help="How often each recipe is trained.")] = 3,
    base: Annotated[
        str | None, typer.Option(help="The arm that differences are taken to. Default: plain, or the first.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the arena.")] = Path("runs/arena"),
    unequal: Annotated[
        bool, typer.Option("--unequal", help="Also compare arms with other budgets, data or decoding.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as one JSON object.")] = False,
) -> None:
    """Compare recipes that continue one checkpoint: each trained with several seeds, decoded alike, on the same items.

    Differences come with 95 % intervals over items and seeds, and p-values corrected across arms (Holm). An arena
    that was stopped goes on where it was.
    """
    with guarded():
        from dwindle.runs import arena as arenas
        from dwindle.runs import recipe

        changes = [text for text in arms if "=" in text]
        recipes = [recipe.read(text, changes) for text in arms if "=" not in text]
        result = arenas.fight(arenas.arena(recipes, seeds, base, unequal), out, say)
    if not processes.first():
        return
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False, allow_nan=False))
        return
    show(result)
    terminal.console().print(f"[dim]All of it: {escape(str(out / 'arena.md'))}, {escape(str(out / 'arena.json'))}")


def show(result: dict[str, Any]) -> None:
    """The comparison as a table: for each metric a heading, and a line for each arm."""
    from dwindle.metrics.catalogue import kind
    from dwindle.runs.arena import extent, table, tested

    rows: list[tuple[str, ...]] = []
    last = None
    for metric, arm, value, seeds, difference, p in table(result):
        way = kind(metric)
        if metric != last:
            rows.append((f"[cyan]{escape(f'{metric} {way.arrow}'.rstrip())}[/]", "", "", "", ""))
        good = way.better * (-1 if difference.startswith(MINUS) else 1)
        clear = bool(p) and float(p) < 0.05
        colour = "not dim" if not clear else {1: "bold green", -1: "bold red", 0: "bold"}[good]
        rows.append((f"  {escape(arm)}", value, f"[dim]{seeds}[/]", f"[{colour}]{difference}[/]", p))
        last = metric
    names, *cells = zip(*rows, strict=True)
    headings = ("value", "seeds", f"difference to {escape(result['base'])}", "p")
    out = terminal.console()
    terminal.show(out, names, [Column(h, c) for h, c in zip(headings, cells, strict=True)])
    out.print(
        f"\n[dim]{extent(result)}. Difference with its 95 % interval; p: two-sided, {tested(result)}, after Holm. "
        "↑ more is better, ↓ less is; coloured where p is below 0.05."
    )
