"""``dwindle demo``: a small comparison on synthetic data; ``--illustration``: the idea."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dwindle.cli.arena import show
from dwindle.cli.jobs import guarded, say
from dwindle.core.notation import rule
from dwindle.report.illustration import RULES, Moment, draw, illustrate

ARMS = ("plain", "cov", "dim", "dim-copy", "bounded-2", "dydim-bounded")
SHOWN = "bounded-2"  # what the last sentence sets beside plain


def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything it writes.")] = Path("demo"),
    seeds: Annotated[int, typer.Option(help="How often each arm is trained.")] = 1,
    illustration: Annotated[
        bool,
        typer.Option(
            "--illustration",
            help="Only show the idea, on three decoding steps over four positions.",
        ),
    ] = False,
) -> None:
    """Train a small summariser that repeats itself, continue it with plain and with diminishing
    attention, and compare.

    Ends with a table and a report with examples and heat maps. If it is stopped, the same command
    continues.
    """
    if illustration:
        _illustrate(out)
        return
    with guarded():
        from dwindle.report import page, report
        from dwindle.runs import arena, recipe

        console = Console(highlight=False)
        console.print(
            "A small pointer-generator on synthetic news, trained, then continued as "
            f"{', '.join(ARMS)}."
        )
        plan = arena.arena([recipe.read(f"demo/newsroom/{arm}") for arm in ARMS], seeds, "plain")
        folder, written = out / "newsroom", out / "report.html"
        # Models this small gain nothing from a second thread, so each arm has a core of its own,
        # once there is the start that all go on from.
        runs = [(plan, arm, seed, folder, say) for arm in plan.arms for seed in plan.seeds]
        with ProcessPoolExecutor(2, get_context("spawn"), torch.set_num_threads, (1,)) as workers:
            workers.submit(arena.begin, plan, folder, say).result()
            list(workers.map(arena.fight_alone, *zip(*runs, strict=True)))
        result = arena.fight(plan, folder, say)
        console.print()
        show(result)
        page.write(written, report.html(report.make([folder])))
        repeated = {
            mean["arm"]: mean["value"]
            for mean in result["means"]
            if mean["metric"] == "repetition3"
        }
        console.print(
            f"\nOpen {escape(str(written))} and look at Examples: what is marked as repeated was "
            "said before, "
            f"{repeated['plain']:.0f} % of all trigrams by plain and {repeated[SHOWN]:.0f} % by "
            f"{SHOWN}.",
            soft_wrap=True,
        )


def _illustrate(out: Path) -> None:
    """The paper's Figure 1, printed and drawn."""
    panels = {name: illustrate(rule(text)) for name, text in RULES.items()}
    console = Console(highlight=False)
    console.print(
        "The same attention under three rules. The more a source position was covered,\nthe less "
        "it gives."
    )
    console.print(f"Dim is {RULES['Dim']}, DyDim is {RULES['DyDim']}.\n")
    for t in range(3):
        console.print(_table(t, {name: steps[t] for name, steps in panels.items()}))
    picture = out / "figure1.png"
    try:
        draw({f"{name}\n{RULES[name]}": steps for name, steps in panels.items()}, picture)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise ValueError(
            "the picture needs matplotlib: type pip install 'dwindle[figures]'"
        ) from None
    console.print(f"Picture: {picture}")


def _table(t: int, steps: dict[str, Moment]) -> Table:
    """One decoding step: attention, each rule's weights, and coverage, with bars for weights."""
    table = Table(
        title=f"Decoding step {t}",
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
    )
    table.add_column("source", justify="right", style="dim")
    table.add_column("coverage before", justify="right")
    for name in steps:
        table.add_column(name)
    first = next(iter(steps.values()))
    for i, attention in enumerate(first.attention):
        before = first.coverage[i] - attention
        weights = [step.weights[i] for step in steps.values()]
        table.add_row(
            str(i + 1), f"{before:.2f}", *(f"{w:.3f} {'█' * round(20 * w)}" for w in weights)
        )
    return table
