"""``dwindle run RECIPE``: train, generate and score; ``dwindle train|generate RUN``: one step of a run."""

from pathlib import Path
from typing import Annotated

import typer

from dwindle.cli.running import Changes, running, say, show_scores
from dwindle.folder import names, processes

Folder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)]


def run(
    recipe: Annotated[str, typer.Argument(help="A name from 'dwindle recipes', or a file.", show_default=False)],
    changes: Changes = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run. Default: runs/RECIPE.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as one JSON object.")] = False,
) -> None:
    """Run a recipe: train, generate, score. A run that was stopped goes on where it was.

    Changes reach into the recipe by dotted keys, values in YAML: training.steps=100 model.rule=dim:log. On several
    GPUs or machines: torchrun --nproc-per-node 4 -m dwindle.cli.main run RECIPE.
    """
    with running():
        from dwindle.runs import recipe as recipes
        from dwindle.runs import steps

        made = steps.run(recipes.read(recipe, changes or []), out, say=say)
        if not processes.first():
            return
        if as_json:
            typer.echo((made.path / names.SCORES).read_text(encoding="utf-8"), nl=False)
        else:
            show_scores(made)


def train(folder: Folder) -> None:
    """Train the model of a run, or go on with its training."""
    _step(folder, "train")


def generate(folder: Folder) -> None:
    """Write the outputs of a trained run, or go on writing them."""
    _step(folder, "generate")


def _step(folder: Path, name: str) -> None:
    with running():
        from dwindle.runs import job, steps

        found = job.find(folder)
        with steps.prepared(found.recipe, folder, found.start, say) as made:
            if made.done(name):
                say(f"{folder}: {name} is done already")
            {"train": steps.train, "generate": steps.generate}[name](made, say)
