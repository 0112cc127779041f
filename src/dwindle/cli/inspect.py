"""``dwindle inspect PATH``: what a saved model carries."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from dwindle.attaching import saved


def inspect(
    path: Annotated[Path, typer.Argument(help="A folder that save_pretrained wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say which class a saved model has, and which rule on which layers."""
    found = saved.inspect(path)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"[bold]{escape(found['class'] or 'unknown class')}[/] "
        f"({escape(found['model_type'] or 'no type')})"
    )
    attached = found["dwindle"]
    if found["rule"] is None:
        console.print("no rule: it was saved untouched")
        return
    console.print(f"rule    {escape(found['rule'])}" + ("" if attached else " (built in)"))
    if attached is None:
        return
    console.print(f"layers  {', '.join(map(str, attached['layers']))}")
    if "modules" in attached:
        console.print(f"modules {escape(', '.join(attached['modules']))}")
    if "source" in attached:
        console.print(f"source  the {escape(attached['source'])}")
    console.print("load it with dwindle.from_pretrained")
