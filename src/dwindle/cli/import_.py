"""``dwindle import FILE_OR_FOLDER --out FOLDER``: a published checkpoint as a folder that every
other verb takes."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from dwindle.checkpoints.opening import bring


def import_(
    path: Annotated[
        Path, typer.Argument(help="A checkpoint's file of weights, or the folder that holds it.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The new folder.")],
    source_lang: Annotated[
        str | None,
        typer.Option(help="Language that a fairseq model reads, if its file does not say it."),
    ] = None,
    target_lang: Annotated[
        str | None,
        typer.Option(help="Language that a fairseq model writes, if its file does not say it."),
    ] = None,
) -> None:
    """Open a published checkpoint of fairseq, PreSumm, See's pointer-generator or the Top-Down
    captioner.

    Dictionaries and vocabularies lie beside the weights, under the names that their projects give
    them. No code in a checkpoint is run. Start a recipe from the result with model.start=FOLDER.
    """
    found = bring(path, out, source_lang, target_lang)
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"found {escape(found.about)}: {found.model.num_parameters(only_trainable=True):,} "
        "parameters"
    )
    console.print(
        f"wrote {escape(str(out))}; a recipe starts from it with model.start={escape(str(out))}"
    )
