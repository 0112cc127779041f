"""``dwindle run RECIPE``: train, generate, score; ``dwindle train|generate RUN``: one step; and
``dwindle generate MODEL FILES``: outputs for any sources."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from dwindle.cli import corpora, terminal
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


def generate(
    model: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="The folder of a run; with FILES also a saved model, or a name on the hub.",
            show_default=False,
        ),
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES",
            help="JSONL or Parquet files with source, or a pattern such as 'sources/*.jsonl'; and "
            "changes, such as decoding.beams=4. Default: the test split of the run.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the outputs of FILES: each gets its name and its format.",
            show_default=False,
        ),
    ] = None,
    ray: corpora.Ray = None,
) -> None:
    """Write the outputs of a trained run, or go on writing them.

    With FILES, write an output for each source in them, into the folder --out: the same items, with
    hypothesis. The settings are those of the run, or of the model's makers, with your changes. A
    command that was killed goes on when it is typed again; so it does with --ray, which shares the
    work among the workers of a cluster.
    """
    if files:
        _write(model, files, out, ray)
        return
    if out is not None or ray is not None:
        raise ValueError(
            "--out and --ray are for files of sources: name them, or launch a run's test split "
            "with torchrun -m dwindle.cli.main generate RUN"
        )
    _step(Path(model), "generate")


def _write(model: str, given: list[str], out: Path | None, ray: str | None) -> None:
    """Outputs for files of sources."""
    from dwindle.models.place import place

    changes = [one for one in given if one.startswith(_DECODING) and not Path(one).exists()]
    named = [Path(one) for one in given if one not in changes]
    files = list(dict.fromkeys(file for name in named for file in corpora.matched(name)))
    if not files:
        raise ValueError(f"{changes[0]} needs files of sources: name them")
    if out is None:
        raise ValueError("outputs of files need a folder: name one with --out")
    corpora.check_formats(files)
    place(model)  # report wrong names before torch is imported
    engine = corpora.engine(ray)
    with guarded():
        from dwindle.generation import bulk
        from dwindle.generation.settings import DecodingSettings
        from dwindle.runs import schema

        text = "\n".join(one.removeprefix(_DECODING).replace("=", ": ", 1) for one in changes)
        asked = schema.load(text, "the changes") or {}
        # settings that are not named may come from the model, which is opened later
        schema.parse(DecodingSettings, {"max_length": _LONG, **asked}, _DECODING)
        scribe = bulk.Scribe(model, asked)
        with corpora.output_folder(out, files), terminal.progress() as tell:
            found = bulk.write(files, out, scribe, engine, tell)
    earlier = f", {found.resumed:,} of them by an earlier run" if found.resumed else ""
    typer.echo(f"{found.items:,} outputs are in {out}{earlier}")
    for count, what in (
        (found.truncated, f"sources were longer than the model reads, marked {bulk.CUT}"),
        (found.empty, "outputs are empty"),
    ):
        if count:
            say(f"{count:,} {what}")


_DECODING = "decoding."
_LONG = 1_000_000
"""A length that no minimum exceeds."""


def _step(folder: Path, name: str) -> None:
    with guarded():
        from dwindle.runs import job, steps

        found = job.find(folder)
        with steps.prepared(found.recipe, folder, found.start, say) as made:
            if made.done(name):
                say(f"{folder}: {name} is done already")
            {"train": steps.train, "generate": steps.generate}[name](made, say)
