"""``dwindle paper``: figures that the paper prints, beside those that follow from its numbers."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from dwindle.cli import terminal
from dwindle.metrics.recomputed import recomputed


def paper(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Recompute the paper's printed figures from other figures that it prints."""
    findings = recomputed()
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("figure", "printed", "recomputed"):
        table.add_column(column, no_wrap=column != "figure")
    for finding in findings:
        colour = "green" if finding.agrees else "red"
        table.add_row(
            f"{escape(finding.about)}\n[dim]  {escape(finding.where)}: {escape(finding.how)}",
            escape(finding.printed),
            f"[{colour}]{escape(finding.recomputed)}",
        )
    terminal.console().print(table)
