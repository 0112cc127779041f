"""``dwindle families``: the model families that take a rule, by which path, and their checks."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from dwindle.attaching.families import CHECKS, FAMILIES, Family

_COLOURS = {"registry": "green", "hand-written": "yellow", "refused": "red"}


def families(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--md", help="Print Markdown, as in docs/FAMILIES.md.")
    ] = False,
) -> None:
    """List the model families of transformers that take a rule."""
    if as_json:
        typer.echo(json.dumps([asdict(family) for family in FAMILIES], indent=2))
    elif as_markdown:
        typer.echo(markdown(), nl=False)
    else:
        _print()


def markdown() -> str:
    """The text of ``docs/FAMILIES.md``."""
    taken = sum(family.path != "refused" for family in FAMILIES)
    lines = [
        "# Model families",
        "",
        "<!-- Made by `dwindle families --md`; a test compares the two. -->",
        "",
        f"`dwindle.attach` was checked on {taken} families of `transformers`, each with a tiny "
        "random model",
        "whose attention is sharp. *registry*: the family calls the library's attention "
        "functions, and the",
        "rule is one of them. *hand-written*: the family has its own softmax, and the rule works "
        "on what it",
        "returns. *refused*: `attach` raises, with the reason given here.",
        "",
        "| family | class | path | checked | remark |",
        "|---|---|---|---|---|",
        *(
            f"| {family.name} | `{family.model}` | {family.path} | {_checked(family)} | "
            f"{family.remark} |"
            for family in FAMILIES
        ),
        "",
        "The checks:",
        "",
        *(f"- **{check}**: {meaning}." for check, meaning in CHECKS.items()),
        "",
        "The rule of these checks is `dydim:log,power(0.5)` on every cross-attention layer. A "
        "family that is",
        "not listed may work too, if its cross-attention has a known name or is named by "
        "`modules=`.",
        "The versions are those of `constraints.txt`.",
    ]
    return "\n".join(lines) + "\n"


def _checked(family: Family) -> str:
    """The checks of a row in few words: those left out, where most were made."""
    missing = [check for check in CHECKS if check not in family.checked]
    if not missing:
        return "all"
    return f"all but {', '.join(missing)}" if family.checked else "-"


def _print() -> None:
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in ("family", "path", "checked", "remark"):
        table.add_column(column, no_wrap=column == "path", overflow="fold")
    for family in FAMILIES:
        path = f"[{_COLOURS[family.path]}]{family.path}"
        table.add_row(f"[cyan]{family.name}", path, _checked(family), family.remark)
    console.print(table)
    console.print("\nThe checks, each with a tiny random model:")
    for check, meaning in CHECKS.items():
        console.print(f"[cyan]{check}[/]: {meaning}")
