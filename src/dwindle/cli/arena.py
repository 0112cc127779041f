"""``dwindle arena RECIPE...``: recipes from one checkpoint, several seeds, one table."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from dwindle.cli import terminal
from dwindle.cli.jobs import guarded, say
from dwindle.system import machine


def arena(
    arms: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE... [KEY=VALUE]...",
            help="Recipes, and changes for all.",
            show_default=False,
        ),
    ],
    seeds: Annotated[int, typer.Option(help="How often each recipe is trained.")] = 3,
    base: Annotated[
        str | None,
        typer.Option(
            help="The arm that the others are compared with. Default: plain, or the first."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the arena.")] = Path("runs/arena"),
    unequal: Annotated[
        bool,
        typer.Option("--unequal", help="Also compare arms with other budgets, data or decoding."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the comparison as one JSON object.")
    ] = False,
) -> None:
    """Compare recipes that continue one checkpoint: each trained with several seeds, decoded alike,
    on the same items.

    Differences come with 95 % intervals over items and seeds, and p-values corrected across arms
    (Holm). An arena that was stopped continues where it left off.
    """
    with guarded():
        from dwindle.runs import arena as arenas
        from dwindle.runs import recipe

        changes = [text for text in arms if "=" in text]
        recipes = [recipe.read(text, changes) for text in arms if "=" not in text]
        result = arenas.fight(arenas.arena(recipes, seeds, base, unequal), out, say)
    if not machine.is_first():
        return
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False, allow_nan=False))
        return
    show(result)
    terminal.console().print(
        f"[dim]All of it: {escape(str(out / 'arena.md'))}, {escape(str(out / 'arena.json'))}"
    )


def show(result: dict[str, Any]) -> None:
    """The comparison as a table: for each metric a heading, and a line for each arm."""
    from dwindle.metrics.catalogue import with_arrow
    from dwindle.runs.arena import extent, table, tested

    made, out = table(result), terminal.console()
    rows = tuple((with_arrow(metric), cells) for metric, cells in made.rows)
    terminal.show_groups(out, replace(made, rows=rows))
    out.print(
        f"\n[dim]{extent(result)}. Difference with its 95 % interval; p: two-sided, "
        f"{tested(result)}, after Holm. "
        "↑ more is better, ↓ less is; coloured where it is clearly better or worse."
    )
