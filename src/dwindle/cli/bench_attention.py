"""``dwindle bench attention``: the price of a rule beside plain fused attention, in one run."""

import json
from pathlib import Path
from typing import Annotated

import torch
import typer

from dwindle.bench import attention as room
from dwindle.bench.table import table
from dwindle.runfiles import whole
from dwindle.system import machine

_PROMPTS = ("prompt", "prompt-step")


def attention(
    shape: Annotated[
        list[str],
        typer.Option(
            help="bart, nmt, long, step, prompt, prompt-step or B,H,T,S,D; may be repeated. "
            "Default: all."
        ),
    ] = [],  # noqa: B006
    rule: Annotated[
        list[str],
        typer.Option(help="A rule; may be repeated. Default: one for every option."),
    ] = [],  # noqa: B006
    backend: Annotated[
        list[str],
        typer.Option(help="auto, cpu, chunked or triton, beside eager; may be repeated."),
    ] = ["auto"],  # noqa: B006
    seconds: Annotated[
        float, typer.Option(help="Time for each shape and direction, roughly.")
    ] = 10.0,
    memory: Annotated[
        bool, typer.Option(help="Also measure peak memory, in fresh processes.")
    ] = True,
    plot: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path(
        "bench-attention.png"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, draw nothing.")] = False,
    device: Annotated[str, typer.Option(help="cpu, or cuda (in half precision).")] = "cpu",
    explain: Annotated[
        bool,
        typer.Option(
            help="Only tell which backend is taken on a GPU, and how long each one took when tried."
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Also write the tables to this Markdown file.")
    ] = None,
) -> None:
    """Time attention under RULE against F.scaled_dot_product_attention and against eager PyTorch.

    Contenders run in turn and medians are compared; the control row is SDPA against itself. Memory
    is the peak of forward + backward beyond the inputs. In the shapes of a prompt a decoder attends
    to itself, under a causal mask, and the first 2048 keys are the source.
    """
    names = shape or list(room.SHAPES)
    sizes = {name: room.shape(name) for name in names}
    rules = rule or list(room.RULES)
    documents = {name: room.DOCUMENT if name in _PROMPTS else None for name in names}
    if not (device == "cpu" or (device.startswith("cuda") and torch.cuda.is_available())):
        raise ValueError(f"there is no device {device!r} here: leave --device out for the CPU")
    if explain:
        for name in names:
            typer.echo(
                "\n".join([f"{name}:", *room.explain(sizes[name], rules, device, documents[name])])
            )
        return
    results = {
        name: room.bench(sizes[name], rules, backend, seconds, memory, documents[name], device)
        for name in names
    }
    if as_json:
        found = {
            name: {"sizes": sizes[name], "rows": room.as_dicts(rows)}
            for name, rows in results.items()
        }
        typer.echo(
            json.dumps(
                {"machine": machine.hardware() | machine.versions(), "shapes": found}, indent=2
            )
        )
        return
    where = ", ".join(
        f"{key}: {value}" for key, value in (machine.hardware() | machine.versions()).items()
    )
    text = "\n\n".join([where, *(table(name, sizes[name], rows) for name, rows in results.items())])
    typer.echo(text)
    if out is not None:
        whole.write_text(out, text + "\n")
    room.draw(results, plot)
    typer.echo(f"Picture: {plot}")
