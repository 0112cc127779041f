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
    intact: Annotated[
        Path | None,
        typer.Option(
            help="JSONL like OUTPUTS, of outputs that leave nothing out: new listeners are calibrated on them."
        ),
    ] = None,
    false_alarms: Annotated[
        float | None, typer.Option(help="The share of intact outputs that may be alarmed; else 0.05.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where findings go; else OUTPUTS.omissions.jsonl.")] = None,
    batch: Annotated[int, typer.Option(help="Pairs in one pass.", min=1)] = 16,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings, a JSON object a line.")] = False,
) -> None:
    """Say of each output how likely it leaves something out of its source, and mark what.

    The outputs may be of any system or person: MODEL only reads them. Without listeners, they are chosen from the
    sources in OUTPUTS and MODEL's own outputs of them, which takes some minutes, and saved. The share of false alarms
    holds for outputs like those they were calibrated on: to audit people or another system, name some that are whole
    with --intact.
    """
    try:
        from dwindle.listening import bulk
        from dwindle.listening.listeners import FILE
        from dwindle.listening.opened import opened
    except ModuleNotFoundError as error:
        raise ValueError(f"this needs {error.name}: type pip install 'dwindle[data,transformers]'") from None
    for given in filter(None, (outputs, intact)):  # one that cannot be read is told before a model is loaded
        next(bulk.items(given), None)
    network, tokenizer = opened(model)
    path = listeners or (Path(model) if Path(model).is_dir() else Path()) / FILE
    if path.is_file():
        chosen = _kept(path, intact, false_alarms)
    else:
        chosen = _chosen(network, tokenizer, outputs, intact, false_alarms)
        typer.echo(f"dwindle: listeners were chosen and saved to {chosen.save(path)}", err=True)
    target = out or bulk.findings_of(outputs)
    summary = bulk.audit(outputs, target, network, tokenizer, chosen, batch)
    if as_json:
        with target.open(encoding="utf-8") as file:
            sys.stdout.writelines(file)
    else:
        _print(target, summary, chosen)
    _warn(summary)


def _kept(path: Path, intact: Path | None, false_alarms: float | None) -> "Listeners":
    """Listeners from a file, which were calibrated once and for all."""
    from dwindle.listening.listeners import Listeners

    chosen = Listeners.load(path)
    if intact or false_alarms not in (None, chosen.false_alarms):
        raise ValueError(
            f"{path} was calibrated before, for {chosen.false_alarms:.0%} false alarms: "
            "name a new file with --listeners"
        )
    return chosen


def _chosen(
    network: Any, tokenizer: Any, outputs: Path, intact: Path | None, false_alarms: float | None
) -> "Listeners":
    from dwindle.listening.bulk import items
    from dwindle.listening.choose import listeners

    given = list(islice(items(intact or outputs), SOURCES))
    whole = [output for _, _, output in given] if intact else None
    share = 0.05 if false_alarms is None else false_alarms
    return listeners(network, tokenizer, [source for _, source, _ in given], whole, share)


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
        f"{summary.alarmed} of {summary.items} outputs are alarmed; of outputs that leave no more out than those "
        f"it was calibrated on, {chosen.false_alarms:.0%} would be. All findings: {escape(str(target))}"
    )


def _warn(summary: "Summary") -> None:
    if summary.unread:
        typer.echo(
            f"dwindle: sources longer than the model reads: {summary.unread}; their ends count as unread, "
            "not as left out",
            err=True,
        )
    if summary.items >= 10 and summary.alarmed > summary.items / 2:
        typer.echo(
            "dwindle: more than half of the outputs are alarmed: are they in the language that the model writes, and "
            "do they belong to these sources?",
            err=True,
        )
