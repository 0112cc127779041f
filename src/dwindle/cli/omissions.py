"""``dwindle omissions OUTPUTS.jsonl --model MODEL``: what the outputs of any system left out of their sources."""

import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from dwindle.listening.bulk import Summary
    from dwindle.listening.listeners import Listeners

SOURCES = 200
"""Sources of the file that listeners are chosen on, at most."""


def omissions(
    outputs: Annotated[Path, typer.Argument(help="JSONL with id, source (or audio) and hypothesis.")],
    model: Annotated[str, typer.Option(help="An encoder-decoder that reads such sources: a folder or a hub name.")],
    listeners: Annotated[
        Path | None, typer.Option(help="A file of listeners; else those beside the model, else chosen now.")
    ] = None,
    false_alarms: Annotated[float, typer.Option(help="The share of intact outputs that may be alarmed.")] = 0.05,
    out: Annotated[Path | None, typer.Option(help="Where findings go; else OUTPUTS.omissions.jsonl.")] = None,
    batch: Annotated[int, typer.Option(help="Pairs in one pass.", min=1)] = 16,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings, a JSON object a line.")] = False,
) -> None:
    """Say of each output how likely it leaves something out of its source, and mark what.

    The outputs may be of any system or person: MODEL only reads them. Without listeners, they are chosen from the
    sources in OUTPUTS and MODEL's own outputs of them, which takes some minutes, and saved.
    """
    try:
        from dwindle.listening import bulk
        from dwindle.listening.opened import opened
    except ModuleNotFoundError as error:
        raise ValueError(f"this needs {error.name}: type pip install 'dwindle[data,transformers]'") from None
    next(bulk.items(outputs), None)  # a file that cannot be read is told before a model is loaded
    network, tokenizer = opened(model)
    chosen = _listeners(network, tokenizer, model, outputs, listeners, false_alarms)
    target = out or bulk.findings_of(outputs)
    summary = bulk.audit(outputs, target, network, tokenizer, chosen, batch)
    if as_json:
        with target.open(encoding="utf-8") as file:
            sys.stdout.writelines(file)
    else:
        _print(target, summary, chosen)
    _warn(summary)


def _listeners(
    network: Any, tokenizer: Any, model: str, outputs: Path, file: Path | None, false_alarms: float
) -> "Listeners":
    """Those that were named, those beside the model, or new ones."""
    from dwindle.listening.bulk import items
    from dwindle.listening.choose import listeners
    from dwindle.listening.listeners import FILE, Listeners

    beside = Path(model) if Path(model).is_dir() else Path()
    path = file or beside / FILE
    if path.is_file():
        return Listeners.load(path)
    sources = [source for _, source, _ in islice(items(outputs), SOURCES)]
    chosen = listeners(network, tokenizer, sources, false_alarms=false_alarms)
    typer.echo(f"dwindle: listeners were chosen from {len(sources)} sources and saved to {chosen.save(path)}", err=True)
    return chosen


def _print(target: Path, summary: "Summary", chosen: "Listeners") -> None:
    from dwindle.listening.bulk import results

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("id", "score", "left out"):
        table.add_column(column, justify="right" if column == "score" else "left")
    alarmed = (record for record in results(target) if record["alarm"])
    for record in islice(alarmed, 20):
        spans = "; ".join(s["text"] or f"{s['start']:.1f}-{s['end']:.1f} s" for s in record["spans"])
        table.add_row(escape(record["id"]), f"{record['score']:.2f}", escape(spans))
    console.print(table)
    console.print(
        f"{summary.alarmed} of {summary.items} outputs are alarmed; of outputs that leave nothing out, "
        f"{chosen.false_alarms:.0%} would be. All findings: {escape(str(target))}"
    )


def _warn(summary: "Summary") -> None:
    if summary.unread:
        typer.echo(
            f"dwindle: {summary.unread} sources are longer than the model reads; their ends count as unread, "
            "not as left out",
            err=True,
        )
    if summary.items >= 10 and summary.alarmed > summary.items / 2:
        typer.echo(
            "dwindle: more than half of the outputs are alarmed: are they in the language that the model writes, and "
            "do they belong to these sources?",
            err=True,
        )
