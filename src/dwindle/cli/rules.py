"""``dwindle rules``: every function and rule, and what each does to a constant attention."""

import json
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from dwindle.core.concave import functions
from dwindle.core.notation import PRESETS
from dwindle.core.rules import Dim, Plain, RowRule

_ATTENTION, _STEPS = 0.2, 8


def rules(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List every function g and every named rule.

    The last column shows how a rule diminishes the weight of one position that gets an attention of
    0.20 eight steps in a row; the other 0.80 goes to a new position each time.
    """
    examples = [cls(*args) for cls in functions().values() for args in cls.examples]
    listed: dict[str, RowRule] = {str(g): Dim(g) for g in examples}
    named = {"plain": Plain(), **PRESETS}
    if as_json:
        typer.echo(
            json.dumps([_entry(name, r) for name, r in [*listed.items(), *named.items()]], indent=2)
        )
        return
    console = Console(highlight=False)
    console.print(
        _table("Functions: one as dim:G, two as dydim:G1,G2", ["G", "g(x)", "g'(0)"], listed)
    )
    console.print(
        _table("\nRules: the paper's as printed, and certified ones", ["name", "rule"], named)
    )
    console.print(
        "\nOptions to append: +renormalise, +share_heads, +protect(special), +protect(0,-1); "
        "with dydim also +detach_gate.\n"
        "training-free is for a model that was never trained with a rule: what a position loses "
        "goes to the others "
        "(+renormalise), and the end of the text and other special tokens keep theirs (+protect).\n"
        "Does a rule have diminishing returns? dwindle certify RULE"
    )


def _entry(name: str, rule: RowRule) -> dict[str, Any]:
    rest = (1 - _ATTENTION) * torch.eye(_STEPS, dtype=torch.float64)
    attention = torch.cat([torch.full((_STEPS, 1), _ATTENTION, dtype=torch.float64), rest], dim=1)
    zero = torch.zeros((), dtype=torch.float64)
    return {
        "name": name,
        "rule": str(rule),
        "formula": [g.formula for g in rule.functions] or ["x"],
        "slope_at_0": [float(g.slope(zero)) for g in rule.functions] or [1.0],
        "weights": rule(attention, protected=torch.zeros(1 + _STEPS, dtype=torch.bool))[0][
            :, 0
        ].tolist(),
    }


def _table(title: str, columns: list[str], listed: dict[str, RowRule]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column == "g'(0)" else "left", overflow="fold")
    table.add_column(f"{_STEPS} x .20 becomes (1/100)", no_wrap=True)
    for name, rule in listed.items():
        entry = _entry(name, rule)
        slopes = "; ".join(f"{s:.3g}" for s in entry["slope_at_0"])
        middle = (
            ["; ".join(entry["formula"]), slopes]
            if "g(x)" in columns
            else [entry["rule"].replace("+", "\n+")]
        )
        table.add_row(
            f"[cyan]{name}", *middle, " ".join(f"{100 * w:2.0f}" for w in entry["weights"])
        )
    return table
