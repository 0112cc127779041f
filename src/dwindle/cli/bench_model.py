"""``dwindle bench model``: the cost of a rule in a whole model, beside the untouched model."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from dwindle.bench import model as room
from dwindle.system import machine


def model(
    config: Annotated[str, typer.Option(help="bart-base, bart-large or marian-big.")] = "bart-base",
    layers: Annotated[
        int | None,
        typer.Option(
            help="Number of layers with the rule, counted from the last. Default: as in the paper."
        ),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="A rule. Default: the paper's for this model.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Items in a batch.")] = 1,
    source: Annotated[int, typer.Option(min=4, max=1024, help="Tokens of a source.")] = 512,
    target: Annotated[
        int, typer.Option(min=4, max=512, help="Tokens of a target; generation makes a quarter.")
    ] = 128,
    seconds: Annotated[float, typer.Option(help="Time for each part, roughly.")] = 40.0,
    part: Annotated[
        list[str] | None,
        typer.Option(help=f"{', '.join(room.PARTS)}; may be repeated. Default: all."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure training steps, the work that the rule adds, beam search and memory, on random
    weights."""
    what = room.setting(config, rule, layers, batch, source, target)
    found = room.bench(what, seconds, part or list(room.PARTS))
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "machine": machine.hardware() | machine.versions(),
                    "setting": asdict(what),
                    **found,
                },
                indent=2,
            )
        )
    else:
        _print(what, found)


def _print(what: room.Setting, found: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(
        ", ".join(
            f"{key}: {value}" for key, value in (machine.hardware() | machine.versions()).items()
        )
    )
    table = Table(
        title=f"{what.config}, random weights, {what.rule} on the last {what.layers} layers"
    )
    for name in ("what", "untouched", "attached", "control"):
        table.add_column(name, justify="left" if name == "what" else "right")
    rows = {
        "step": ("training step", "seconds", "s a step"),
        "generate": ("beam 4", "seconds", "CPU s"),
        "memory": ("peak memory", "megabytes", "MB"),
    }
    for part, (name, key, unit) in rows.items():
        if part in found:
            one = found[part]
            base = f"{one[key]:.4g} {unit}"
            table.add_row(name, base, f"x {one['attached']:.3f}", f"x {one['control']:.3f}")
    for part, task in (("step-added", "training step"), ("generate-added", "beam 4")):
        if part in found:
            one = found[part]
            base = f"{one['untouched']:.2%} of CPU time"
            table.add_row(
                f"cross-attention in {task}", base, f"{one['added']:+.2%}", f"{one['control']:+.2%}"
            )
    console.print(table)
    console.print(
        f"Batch {what.batch}, source {what.source}, target {what.target}. Control: the untouched "
        "model again."
    )
