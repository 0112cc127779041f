"""``dwindle recipes [WORD]``: the shipped recipes, all or some; show one, copy one, check a file."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from dwindle.cli import terminal
from dwindle.cli.jobs import Changes, guarded


class Shelf(TyperGroup):
    """What is not a command is a word to list recipes by."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = args[0] in self.commands
        return super().resolve_command(ctx, args if known else ["list", *args])


app = typer.Typer(
    cls=Shelf,
    help="List the recipes, all or those with a word; show, copy or check one.",
    invoke_without_command=True,
    add_completion=False,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object a recipe.")]
Name = Annotated[str, typer.Argument(help="A name from the list, or a file.", show_default=False)]


@app.callback()
def recipes(context: typer.Context, as_json: AsJson = False) -> None:
    """List the recipes that come with dwindle, all or those with a word; show, copy or check one."""
    if context.invoked_subcommand is None:
        list_("", as_json)


@app.command("list")
def list_(
    word: Annotated[str, typer.Argument(help="A part of their names or lines.", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """List the recipes that have a word in their name or line, such as newsroom: 'dwindle recipes newsroom'."""
    with guarded():
        from dwindle.runs import shelf

        found = [labels for labels in map(shelf.labels, shelf.shipped()) if _has(labels, word)]
    if not found:
        raise ValueError(f"no recipe has {word!r} in its name or line: type dwindle recipes for the list")
    if as_json:
        for labels in found:
            typer.echo(json.dumps(labels, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = {"name": ("recipe", "cyan"), "row": ("paper", ""), "about": ("what it is", ""), "scale": ("takes", "dim")}
    told = [key for key in columns if any(labels[key] for labels in found)]
    for key in told:
        heading, style = columns[key]
        table.add_column(heading, style=style, no_wrap=key == "name")
    for labels in found:
        table.add_row(*(escape(str(labels[key] or "")) for key in told))
    terminal.console().print(table)


def _has(labels: dict[str, Any], word: str) -> bool:
    return any(word.casefold() in str(labels[key] or "").casefold() for key in ("name", "row", "about"))


@app.command("show")
def show(
    name: Name,
    changes: Changes = None,
    full: Annotated[bool, typer.Option("--full", help="Every setting, bases and defaults filled in.")] = False,
) -> None:
    """Print a recipe: its file, or with --full every setting."""
    with guarded():
        from dwindle.runs import shelf

        if not (full or changes):
            typer.echo(shelf.find(name).read_text(encoding="utf-8"), nl=False)
            return
        from dwindle.runs import recipe

        typer.echo(recipe.text(recipe.read(name, changes or [])), nl=False)


@app.command("copy")
def copy(name: Name, file: Annotated[Path, typer.Argument(help="The new file.", show_default=False)]) -> None:
    """Copy a recipe to a file of your own, to change it."""
    with guarded():
        from dwindle.folder import whole
        from dwindle.runs import shelf

        if file.suffix not in (".yaml", ".yml"):
            raise ValueError(f"{file} would not be found as a recipe: end its name in .yaml")
        if file.exists():
            raise ValueError(f"{file} is there already: choose another name")
        file.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(file, shelf.find(name).read_text(encoding="utf-8"))
    typer.echo(f"Copied to {file}: change it, then type dwindle run {file}")


@app.command("check")
def check(name: Name, changes: Changes = None) -> None:
    """Check a recipe without running it: every key, type and value."""
    with guarded():
        from dwindle.runs import recipe

        found = recipe.read(name, changes or [])
    typer.echo(f"{name} is a recipe: {found.about or found.name}")
