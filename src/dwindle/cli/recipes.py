"""``dwindle recipes [TASK]``: shipped tasks, the recipes of one; show, copy or check a recipe."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from dwindle.cli import terminal
from dwindle.cli.jobs import Changes, guarded


class Shelf(TyperGroup):
    """A group of commands in which any other word is a task, or a word to list recipes by."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = args[0] in self.commands
        return super().resolve_command(ctx, args if known else ["list", *args])


app = typer.Typer(
    cls=Shelf,
    help="List the tasks, or the recipes of one; show, copy or check a recipe.",
    invoke_without_command=True,
    add_completion=False,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per recipe.")]
Name = Annotated[
    str, typer.Argument(help="A recipe (news/dim), a task (news), or a file.", show_default=False)
]


@app.callback()
def recipes(context: typer.Context, as_json: AsJson = False) -> None:
    """List the tasks that come with dwindle, or the recipes of one; show, copy or check a
    recipe."""
    if context.invoked_subcommand is None:
        list_("", as_json)


@app.command("list")
def list_(
    word: Annotated[
        str, typer.Argument(help="A task, or a part of names or descriptions.", show_default=False)
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the recipes of a task ('dwindle recipes news'), or those that have a word in name or
    description."""
    with guarded():
        from dwindle.runs import shelf

        if word and not as_json and (word in shelf.tasks() or word.endswith((".yaml", ".yml"))):
            _show_arms(shelf.find(word, several=True).file)
            return
        found = [labels for labels in map(shelf.labels, shelf.shipped()) if _has(labels, word)]
    if not found:
        raise ValueError(
            f"no recipe has {word!r} in its name or description: type dwindle recipes for the tasks"
        )
    if as_json:
        for labels in found:
            typer.echo(json.dumps(labels, ensure_ascii=False))
    elif word:
        _show_labels(found)
    else:
        _show_tasks()


def _show_tasks() -> None:
    """One line a task, so that the list fits on a screen."""
    from dwindle.runs import shelf

    table = _table("task", "recipes", "what it is")
    table.columns[1].justify = "right"
    for task, file in shelf.tasks().items():
        table.add_row(task, str(len(shelf.inside(file))), escape(shelf.about(task)))
    out = terminal.console()
    out.print(table)
    out.print("\nType dwindle recipes TASK for its recipes.")


def _show_arms(file: Path) -> None:
    """The settings that a task shares, then each arm's changes, as on the command line."""
    from dwindle.runs import shelf

    out = terminal.console()
    shared = _table("shared", "settings")
    for key, value in shelf.shared(file).items():
        shared.add_row(
            key, escape(_settings({key: value}).replace(f"{key}.", "").removeprefix(f"{key}="))
        )
    out.print(shared)
    out.print()
    table = _table("recipe", "what it is, and what it changes")
    for arm, own in shelf.arms(file).items():
        row = f" ({own['row']})" if own.get("row") else ""
        base = f"of {own['base']}: " if "base" in own else ""
        changed = {key: value for key, value in own.items() if key not in (*shelf.LABELS, "base")}
        lines = (f"{own.get('about') or ''}{row}", base + (_settings(changed) or "nothing"))
        table.add_row(shelf.Entry(file, arm).name, Text("\n").join(map(Text, lines, ("", "dim"))))
    out.print(table)


def _settings(mapping: dict[str, Any]) -> str:
    from dwindle.runs import schema

    return " ".join(f"{key}={_value(value)}" for key, value in schema.flat(mapping))


def _value(value: Any) -> str:
    """A value as the command line takes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return value if isinstance(value, str) else json.dumps(value)


def _show_labels(found: list[dict[str, Any]]) -> None:
    columns = {"name": "recipe", "row": "paper", "about": "what it is", "scale": "takes"}
    told = [key for key in columns if any(labels[key] for labels in found)]
    table = _table(*(columns[key] for key in told))
    for labels in found:
        table.add_row(*(escape(str(labels[key] or "")) for key in told))
    terminal.console().print(table)


def _table(*headings: str) -> Table:
    """A table whose first column has the names."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for k, heading in enumerate(headings):
        table.add_column(heading, style="" if k else "cyan", no_wrap=not k, overflow="fold")
    return table


def _has(labels: dict[str, Any], word: str) -> bool:
    return any(
        word.casefold() in str(labels[key] or "").casefold() for key in ("name", "row", "about")
    )


@app.command("show")
def show(
    name: Name,
    changes: Changes = None,
    full: Annotated[
        bool, typer.Option("--full", help="Every setting, bases and defaults filled in.")
    ] = False,
) -> None:
    """Print a recipe with its comments, or with --full every setting; or the file of a task."""
    with guarded():
        from dwindle.runs import shelf

        if not (full or changes):
            typer.echo(shelf.text(name), nl=False)
            return
        from dwindle.runs import recipe

        typer.echo(recipe.text(recipe.read(name, changes or [])), nl=False)


@app.command("copy")
def copy(
    name: Name, file: Annotated[Path, typer.Argument(help="The new file.", show_default=False)]
) -> None:
    """Copy a recipe, or a whole task, to a file of your own, to change it."""
    with guarded():
        from dwindle.runfiles import whole
        from dwindle.runs import shelf

        if file.suffix not in (".yaml", ".yml"):
            raise ValueError(f"{file} would not be found as a recipe: end its name in .yaml")
        if file.exists():
            raise ValueError(f"{file} is there already: choose another name")
        file.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(file, shelf.text(name))
        run = shelf.inside(file)[0].arm
    typer.echo(
        f"Copied to {file}: change it, then type dwindle run {file}{f'/{run}' if run else ''}"
    )


@app.command("check")
def check(name: Name, changes: Changes = None) -> None:
    """Check a recipe, or all recipes of a task, without running them: every key, type and value."""
    with guarded():
        from dwindle.runs import recipe, shelf

        place = shelf.find(name, several=True)
        places = [place] if place.arm else shelf.inside(place.file)
        found = [recipe.read(str(place), changes or []) for place in places]
    if len(found) == 1:
        typer.echo(f"{name} is a recipe: {found[0].about or found[0].name}")
    else:
        typer.echo(
            f"{name} is a task of {len(found)} recipes: {', '.join(str(p.arm) for p in places)}"
        )
