"""``dwindle coverage MODEL --text FILE``: what a model writes of one text, and what of the text it leaves out."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from dwindle.folder.traces import Trace


def coverage(
    model: Annotated[str, typer.Argument(help="A run folder, a saved model, a name on the hub.", show_default=False)],
    text: Annotated[Path, typer.Option("--text", help="The source, UTF-8; - for standard input.")] = Path("-"),
    rule: Annotated[str | None, typer.Option(help="Also look at the model with this rule.", show_default=False)] = None,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("coverage.html"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and write no file.")] = False,
) -> None:
    """Write the output for one text, rank the text's sentences by how little of them was used, and draw it all.

    A text of one sentence is ranked word by word.

    What coverage tells is disengagement, not misstatement: a sentence that was hardly used is likely left out, but one
    that was used much may still be misreported.
    """
    source = _read(text)
    try:
        from dwindle.generation.look import look
        from dwindle.report import coverage_page as made
        from dwindle.report import page
    except ModuleNotFoundError as error:
        raise ValueError(f"this needs {error.name}: type pip install 'dwindle[report,transformers]'") from None
    found = look(model, source, rule)
    if as_json:
        typer.echo(json.dumps([_record(name, one) for name, one in found.items()], ensure_ascii=False))
        return
    console = Console(highlight=False)
    for name, one in found.items():
        _print(console, name, one)
    page.write(out, made.html(found))
    console.print(f"Written: {escape(str(out))}")


def _read(path: Path) -> str:
    source = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    if not source.strip():
        raise ValueError("the text is empty: name a file with --text, or pipe one in")
    return source.strip("\n")


def _record(name: str, one: "Trace") -> dict[str, Any]:
    from dwindle.analysis.left_out import THRESHOLD, shares, units

    unit, spans = units(one.text)
    told = zip(spans, shares(one.weights.sum(0), one.places, spans), strict=True)
    rows = [
        {"start": a, "end": b, "text": one.text[a:b].strip(), "share": share, "left_out": _is_low(share, THRESHOLD)}
        for (a, b), share in told
    ]
    return {"model": name, "output": "".join(one.output), "threshold": THRESHOLD, "unit": unit, "parts": rows}


def _is_low(share: float | None, threshold: float) -> bool | None:
    """Whether a sentence counts as left out; None for one that the model was not given."""
    return None if share is None else share <= threshold


def _print(console: Console, name: str, one: "Trace") -> None:
    record = _record(name, one)
    console.print(f"[bold]{escape(name)}[/]\n{escape(record['output'])}\n")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column(f"least covered {record['unit']} of the source")
    given = [row for row in record["parts"] if row["share"] is not None]
    for row in sorted(given, key=lambda row: row["share"])[:8]:
        colour = "yellow" if row["left_out"] else "dim"
        table.add_row(f"[{colour}]{row['share']:.2f}", escape(row["text"]))
    console.print(table)
    unread = len(record["parts"]) - len(given)
    more = f" {unread} {record['unit']} were beyond the model's length and not given to it." if unread else ""
    console.print(f"[dim]1 is average; at most {record['threshold']} counts as left out.{more}\n")
