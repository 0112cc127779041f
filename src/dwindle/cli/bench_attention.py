"""``dwindle bench attention``: the price of a rule, beside plain fused attention in the same run."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from dwindle.bench import attention as room
from dwindle.bench.picture import draw
from dwindle.folder import machine

_PROMPTS = ("prompt", "prompt-step")


def attention(
    shape: Annotated[
        list[str],
        typer.Option(help="bart, nmt, long, step, prompt, prompt-step or B,H,T,S,D; may be repeated. Default: all."),
    ] = [],  # noqa: B006
    rule: Annotated[
        list[str],
        typer.Option(help="A rule; may be repeated. Default: one for every option."),
    ] = [],  # noqa: B006
    backend: Annotated[
        list[str],
        typer.Option(help="auto, cpu, chunked or triton, beside eager; may be repeated."),
    ] = ["auto"],  # noqa: B006
    seconds: Annotated[float, typer.Option(help="Time for each shape and direction, roughly.")] = 10.0,
    memory: Annotated[bool, typer.Option(help="Also measure peak memory, in fresh processes.")] = True,
    plot: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("bench-attention.png"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, draw nothing.")] = False,
) -> None:
    """Time attention under RULE against F.scaled_dot_product_attention and against eager PyTorch.

    Contenders run in turn and medians are compared; the control row is SDPA against itself. Memory is the
    peak of forward + backward beyond the inputs. In the shapes of a prompt a decoder attends to itself, under a
    causal mask, and the first 2048 keys are the source.
    """
    names = shape or list(room.SHAPES)
    sizes = {name: room.shape(name) for name in names}
    rules = rule or list(room.RULES)
    documents = {name: room.DOCUMENT if name in _PROMPTS else None for name in names}
    results = {name: room.bench(sizes[name], rules, backend, seconds, memory, documents[name]) for name in names}
    if as_json:
        found = {name: {"sizes": sizes[name], "rows": room.as_dicts(rows)} for name, rows in results.items()}
        typer.echo(json.dumps({"machine": machine.hardware() | machine.versions(), "shapes": found}, indent=2))
        return
    console = Console(highlight=False)
    console.print(", ".join(f"{key}: {value}" for key, value in (machine.hardware() | machine.versions()).items()))
    for name, rows in results.items():
        console.print(_table(name, sizes[name], rows))
    draw(results, plot)
    console.print(f"Picture: {plot}")


def _table(name: str, sizes: room.Shape, rows: list[room.Timing]) -> Table:
    b, h, t, s, d = sizes
    table = Table(
        title=f"\n{name}: B{b} H{h} T{t} S{s} D{d}, float32",
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
    )
    table.add_column("contender")
    for column in ("forward ms", "/ SDPA", "/ eager", "fwd+bwd ms", "/ SDPA", "/ eager", "extra MB"):
        table.add_column(column, justify="right")
    for row in rows:
        numbers = [(row.forward, 2), (row.forward_to_sdpa, 2), (row.forward_to_eager, 2)]
        numbers += [(row.both, 2), (row.both_to_sdpa, 2), (row.both_to_eager, 2), (row.megabytes, 0)]
        table.add_row(row.contender, *("-" if x is None else f"{x:.{digits}f}" for x, digits in numbers))
    return table
