"""``dwindle run RECIPE``: train, generate, score; ``dwindle train|generate RUN``: one step."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from dwindle.cli import terminal
from dwindle.cli.jobs import Changes, guarded, say, show_scores
from dwindle.runfiles import names
from dwindle.system import machine

if TYPE_CHECKING:
    from dwindle.runs.recipe import Recipe

Folder = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)
]


def run(
    recipe: Annotated[
        str, typer.Argument(help="A name from 'dwindle recipes', or a file.", show_default=False)
    ],
    changes: Changes = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run. Default: runs/RECIPE.", show_default=False),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Only say what would be read, fetched, trained and decoded."),
    ] = False,
    smoke: Annotated[
        bool,
        typer.Option(
            "--smoke", help="Try the whole recipe with three updates and three test items."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the scores as one JSON object.")
    ] = False,
) -> None:
    """Run a recipe: train, generate, score. A run that was stopped continues where it left off. If
    the recipe has a grid, all its combinations are tried on dev, and the best is run on test.

    Changes reach into the recipe by dotted keys, values in YAML: training.steps=100
    model.rule=dim:log. On several GPUs or machines: torchrun --nproc-per-node 4 -m dwindle.cli.main
    run RECIPE.
    """
    with guarded():
        from dwindle.runs import recipe as recipes

        wanted = recipes.read(recipe, changes or [])
        if not (plan or (out or recipes.ROOT / wanted.name).exists()):
            recipes.check_names(wanted)

        from dwindle.runs import grid, steps
        from dwindle.runs import smoke as smokes

        if plan:
            if machine.is_first():
                _show_plan(wanted, out)
            return
        if smoke:
            made = smokes.smoke(wanted, out, say)
        else:
            made = grid.search(wanted, out, say) if wanted.grid else steps.run(wanted, out, say=say)
        if not machine.is_first():
            return
        if as_json:
            typer.echo((made.path / names.SCORES).read_text(encoding="utf-8"), nl=False)
        else:
            show_scores(made)


def _show_plan(wanted: "Recipe", out: Path | None) -> None:
    from dwindle.runs.plan import plan

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    for what, sentence in plan(wanted, out).rows():
        table.add_row(what, escape(sentence))
    terminal.console().print(table)


def train(folder: Folder) -> None:
    """Train the model of a run, or go on with its training."""
    _step(folder, "train")


def generate(folder: Folder) -> None:
    """Write the outputs of a trained run, or go on writing them."""
    _step(folder, "generate")


def _step(folder: Path, name: str) -> None:
    with guarded():
        from dwindle.runs import job, steps

        found = job.find(folder)
        with steps.prepared(found.recipe, folder, found.start, say) as made:
            if made.done(name):
                say(f"{folder}: {name} is done already")
            {"train": steps.train, "generate": steps.generate}[name](made, say)
