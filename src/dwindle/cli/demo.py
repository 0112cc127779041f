"""``dwindle demo``: the idea in three steps, printed and drawn (the paper's Figure 1)."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from dwindle.attention.notation import rule
from dwindle.report.illustration import Step, draw, illustrate

_RULES = {"Plain": "plain", "Dim": "dim:log", "DyDim": "dydim:boxcox(0),boxcox(0.5)"}


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("demo"),
) -> None:
    """Show what diminishing attention does, on three decoding steps over four source positions."""
    panels = {name: illustrate(rule(text)) for name, text in _RULES.items()}
    console = Console(highlight=False)
    console.print("The same attention under three rules. The more a source position was covered,\nthe less it gives.")
    console.print(f"Dim is {_RULES['Dim']}, DyDim is {_RULES['DyDim']}.\n")
    for t in range(3):
        console.print(_table(t, {name: steps[t] for name, steps in panels.items()}))
    picture = out / "figure1.png"
    try:
        draw({f"{name}\n{_RULES[name]}": steps for name, steps in panels.items()}, picture)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise ValueError("the picture needs matplotlib: type pip install 'dwindle[figures]'") from None
    console.print(f"Picture: {picture}")


def _table(t: int, steps: dict[str, Step]) -> Table:
    """One decoding step: attention, the weights of each rule, and coverage, with a bar for each weight."""
    table = Table(title=f"Decoding step {t}", title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("source", justify="right", style="dim")
    table.add_column("coverage before", justify="right")
    for name in steps:
        table.add_column(name)
    first = next(iter(steps.values()))
    for i, attention in enumerate(first.attention):
        before = first.coverage[i] - attention
        weights = [step.weights[i] for step in steps.values()]
        table.add_row(str(i + 1), f"{before:.2f}", *(f"{w:.3f} {'█' * round(20 * w)}" for w in weights))
    return table
