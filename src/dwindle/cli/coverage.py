"""``dwindle coverage MODEL --text FILE`` or ``--audio FILE``: what a model writes of it, and what
it leaves out."""

import itertools
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dwindle.cli import terminal

if TYPE_CHECKING:
    from dwindle.auditing.listeners import Finding, Listeners
    from dwindle.generation.interactive import Author
    from dwindle.runfiles.arrays import Trace


def coverage(
    model: Annotated[
        str,
        typer.Argument(help="A run folder, a saved model, a name on the hub.", show_default=False),
    ],
    text: Annotated[
        Path, typer.Option("--text", help="The source, UTF-8; - for standard input.")
    ] = Path("-"),
    audio: Annotated[
        Path | None,
        typer.Option(help="A WAV file, for a speech model with listeners.", show_default=False),
    ] = None,
    listeners: Annotated[
        Path | None,
        typer.Option(
            help="A file of listeners. Default: those beside the model, if any.", show_default=False
        ),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="Also look at the model with this rule.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("coverage.html"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and write no file.")] = False,
) -> None:
    """Write the output for one text, rank the text's sentences by how little of them was used, and
    draw it all.

    A text of one sentence is ranked word by word. With listeners, which 'dwindle omissions'
    chooses, what they say was left out is marked too, with its error rate; for a sound, only that
    is shown.

    Coverage shows what was used, not whether it was told correctly: a sentence that was hardly used
    is likely left out, but one that was used much may still be told wrongly.
    """
    from dwindle.models.place import place

    place(model)  # report wrong names before torch is imported
    for given in filter(None, (audio, listeners)):
        given.open("rb").close()
    terminal.check_apart(out, filter(None, (text, audio, listeners)))
    source = "" if audio else _read(text)
    chosen = _listeners(model, listeners)
    if audio is not None:
        _listen(model, audio, chosen, out, as_json)
        return
    try:
        from dwindle.report import coverage_page as made
        from dwindle.report import omissions_section, page
    except ModuleNotFoundError as error:
        raise ValueError(
            f"this needs {error.name}: type pip install 'dwindle[report,transformers]'"
        ) from None
    with terminal.progress() as tell:
        found = look(
            model, source, rule, lambda sentence: typer.echo(f"dwindle: {sentence}", err=True), tell
        )
    told = (
        _finding(model, source, "".join(next(iter(found.values())).output), chosen)
        if chosen
        else None
    )
    if as_json:
        records = [_record(name, one) for name, one in found.items()]
        if told and chosen:
            records[0] |= {"left_out": _left_out(told, chosen)}
        typer.echo(json.dumps(records, ensure_ascii=False))
        return
    console = Console(highlight=False)
    for name, one in found.items():
        _print(console, name, one)
    sections = []
    if told and chosen:
        _print_left_out(console, told, chosen)
        sections.append(omissions_section.text_section(told, source, chosen))
    page.write(out, made.html(found, sections))
    console.print(f"Written: {escape(str(out))}")


def look(
    name: str,
    source: str,
    rule: str | None = None,
    say: Callable[[str], None] = warnings.warn,
    tell: terminal.Tell = lambda stage, done, total: None,
) -> "dict[str, Trace]":
    """Trace of a model's output for ``source``, by the name of the model; with ``rule``, also its
    trace with that rule.

    ``say`` is given what a reader should know about the traces, before they are made; ``tell`` how
    far the writing is.
    """
    from dwindle.core.notation import rule as parse
    from dwindle.generation.interactive import Author

    if rule is not None:
        parse(rule)  # a mistake in it is said at once, not after the first output
    author = Author(name)
    for remark in author.remarks(source):
        say(remark)
    found = {
        f"{author.name} ({author.rule})" if author.rule else author.name: _written(
            author, source, "writing", tell
        )
    }
    if rule is not None:
        for note in author.put(rule):
            say(note)
        found[f"{author.name} with {rule}"] = _written(author, source, f"writing with {rule}", tell)
    return found


def _written(author: "Author", source: str, stage: str, tell: terminal.Tell) -> "Trace":
    """The output, telling its steps out of the most there can be: it may end at any step."""
    steps = itertools.count(1)

    def told() -> bool:
        tell(f"{stage} (it may end sooner)", next(steps), author.usual.max_length)
        return False

    return author.write(source, stop=told)


def _listeners(model: str, named: Path | None) -> "Listeners | None":
    """The listeners of the named file, or beside a model; None if there are none or they tell
    nothing."""
    if named is None and not Path(model).is_dir():
        return None
    from dwindle.auditing.listeners import Listeners

    if named is None:
        return Listeners.beside(model)
    chosen = Listeners.load(named)
    return chosen if chosen.tells else None


def _finding(model: str, source: str, output: str, chosen: "Listeners") -> "Finding":
    from dwindle.auditing.audit import omissions
    from dwindle.models.opened import opened

    one = opened(model)
    (found,) = omissions(one.model, one.reader, [(source, output)], chosen)
    return found


def _listen(model: str, audio: Path, chosen: "Listeners | None", out: Path, as_json: bool) -> None:
    """The transcript of a sound, and the stretches of it that were not used."""
    from dwindle.auditing.audit import omissions
    from dwindle.auditing.readers import reader_of
    from dwindle.auditing.sound import read_wave
    from dwindle.models.opened import opened
    from dwindle.report import omissions_section, page

    sound = read_wave(audio)
    if chosen is None or chosen.unit != "seconds":
        raise ValueError(
            f"{model} has no listeners for sound beside it: choose them with 'dwindle omissions', "
            "and name their file with --listeners"
        )
    one = opened(model)
    network, processor = one.model, one.reader
    (transcript,) = reader_of(network, processor).write([sound])
    (found,) = omissions(network, processor, [(sound, transcript)], chosen)
    if as_json:
        typer.echo(
            json.dumps({"model": model, "output": transcript, "left_out": _left_out(found, chosen)})
        )
        return
    console = Console(highlight=False)
    console.print(f"{escape(transcript)}\n")
    _print_left_out(console, found, chosen)
    page.write(
        out,
        omissions_section.sound_page(
            Path(model).name, sound.tolist(), audio.read_bytes(), transcript, found, chosen
        ),
    )
    console.print(f"Written: {escape(str(out))}")


def _left_out(found: "Finding", chosen: "Listeners") -> dict[str, Any]:
    from dwindle.auditing.auditor import record_of

    record = record_of("", found, chosen.unit)
    del record["id"]
    return record | {"false_alarms": chosen.false_alarms}


def _print_left_out(console: Console, found: "Finding", chosen: "Listeners") -> None:
    from dwindle.report.omissions_section import rate

    spans = "; ".join(span.text or f"{span.start:.1f}-{span.end:.1f} s" for span in found.spans)
    state = "[yellow]Likely left out[/]" if found.alarm else "No alarm"
    console.print(f"{state}; marked: {escape(spans) or 'nothing'}")
    console.print(f"[dim]{rate(chosen)}\n")


def _read(path: Path) -> str:
    from dwindle.runfiles import whole

    if str(path) == "-" and sys.stdin.isatty():
        typer.echo(
            "dwindle: paste the text, then press Ctrl-D on a line of its own (or name a file: "
            "--text)",
            err=True,
        )
    source = sys.stdin.read() if str(path) == "-" else whole.read_text(path)
    if not source.strip():
        raise ValueError("the text is empty: name a file with --text, or pipe one in")
    return source.strip("\n")


def _record(name: str, one: "Trace") -> dict[str, Any]:
    from dwindle.analysis.left_out import THRESHOLD, shares, units

    unit, spans = units(one.text, one.places, one.source)
    told = zip(spans, shares(one.weights.sum(0), one.places, spans), strict=True)
    rows = [
        {
            "start": a,
            "end": b,
            "text": one.text[a:b].strip(),
            "share": share,
            "left_out": _is_low(share, THRESHOLD),
        }
        for (a, b), share in told
    ]
    return {
        "model": name,
        "output": "".join(one.output),
        "threshold": THRESHOLD,
        "unit": unit,
        "parts": rows,
    }


def _is_low(share: float | None, threshold: float) -> bool | None:
    """True if a sentence counts as left out; None for one without a share."""
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
    more = (
        f" {unread} {record['unit']} have no share: beyond the model's length, or unknown to it."
        if unread
        else ""
    )
    console.print(f"[dim]1 is average; at most {record['threshold']} counts as left out.{more}\n")
