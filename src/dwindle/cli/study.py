"""``dwindle study``: a human comparison of two systems, from the sample to the p-values."""

import json
import socket
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dwindle.metrics.table import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dwindle.study.store import Store
    from dwindle.study.tally import Comparison, Share, Tally, Verdicts

app = typer.Typer(
    help="Have people compare two systems: sample, serve, count.",
    no_args_is_help=True,
    add_completion=False,
)

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The study folder.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Url = Annotated[
    str | None,
    typer.Option(
        help="Where raters reach the server; links begin with it. Default: where it was served."
    ),
]
PassMark = Annotated[
    float,
    typer.Option(min=0, max=1, help="Leave out raters who passed a smaller share of their checks."),
]
LOCAL = "http://127.0.0.1:8000"


@app.callback()
def _needs() -> None:
    """Say what to install when the room cannot be entered."""
    try:
        import jinja2  # noqa: F401
        import numpy  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise ValueError(f"a study needs {error.name}: type pip install 'dwindle[study]'") from None


@app.command("new")
def new(
    a: Annotated[
        Path, typer.Argument(metavar="A", help="outputs.jsonl of one system.", show_default=False)
    ],
    b: Annotated[
        Path, typer.Argument(metavar="B", help="outputs.jsonl of the other.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="The study folder to make.", show_default=False)],
    items: Annotated[int, typer.Option(help="Items to sample.")] = 500,
    raters: Annotated[int, typer.Option(help="Raters for each item.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the sample, the order and the sides.")] = 1,
    checks: Annotated[int, typer.Option(help="Attention checks to mix in.")] = 0,
    links: Annotated[
        int | None, typer.Option(help="Personal links to make. Default: as many as raters.")
    ] = None,
    lease: Annotated[
        float, typer.Option(help="Minutes until an item left open returns to the pool.")
    ] = 60,
    questions: Annotated[
        str, typer.Option(help="What to ask: summary, translation, or a JSON file.")
    ] = "summary",
    practice: Annotated[
        bool, typer.Option("--practice", help="Begin with an item that does not count.")
    ] = False,
    identical: Annotated[
        Literal["skip", "tie"],
        typer.Option(help="Items with two equal texts: pass over, or count as ties unasked."),
    ] = "skip",
    names: Annotated[
        str | None,
        typer.Option(help="Names for the systems, separated by a comma. Default: their files."),
    ] = None,
    code: Annotated[
        str,
        typer.Option(
            help="Completion code at the end. Default: one for each rater.", show_default=False
        ),
    ] = "",
) -> None:
    """Sample items from A and B, draw the sides, and make the study folder with a link for each
    rater."""
    from dwindle.runfiles.outputs import read
    from dwindle.study import store
    from dwindle.study.design import design
    from dwindle.study.questions import load

    called = cast(tuple[str, str], tuple(names.split(","))) if names is not None else None
    asked = load(questions)
    made = design(read(a), read(b), items, raters, seed, checks, practice, identical, called)
    store.create(made, out, raters if links is None else links, 60 * lease, asked, code)
    shown = sum(not pair.check for pair in made.pairs)
    typer.echo(
        f"{out}: {count(shown, 'item')} and {count(checks, 'check')}, {count(raters, 'rater')} "
        f"each, {made.systems[0]} and {made.systems[1]}."
    )
    if made.same:
        typer.echo(_identical(made.identical, made.same))
    typer.echo(f"Next: dwindle study serve {out} (it prints everybody's link)")


@app.command("serve")
def serve(
    folder: Folder,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 is every one.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8000,
    url: Annotated[
        str | None,
        typer.Option(help="Where raters reach the server, if there is a proxy before it."),
    ] = None,
) -> None:
    """Serve the study's pages until interrupted. Ballots are on the disk before a rater is
    thanked."""
    from dwindle.study import pages, store
    from dwindle.web import server

    with store.Store(folder) as opened:
        listening = server.bind(host, port)
        local = _address(host, listening.getsockname()[1])
        with opened.transaction():
            opened.served_at(url or local)
        typer.echo(f"Serving {folder} on {local} (stop with Ctrl-C).")
        try:
            _print_links(opened, None)
        except ValueError as error:  # their file may be deleted once they are sent
            typer.echo(str(error))
    server.answer(pages.app(folder), listening)


def _address(host: str, port: int) -> str:
    """The address that a browser opens. If the server answers at all addresses of this machine, it
    is the machine's name."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


@app.command("invite")
def invite(
    folder: Folder,
    count: Annotated[int, typer.Argument(min=1, help="Links to add.")],
    url: Url = None,
) -> None:
    """Make links for more raters."""
    from dwindle.study.store import Store

    with Store(folder) as store:
        with store.transaction():
            store.invite(count)
        _print_links(store, url)


@app.command("status")
def status(
    folder: Folder,
    links: Annotated[bool, typer.Option("--links", help="Also print everybody's link.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show how far the study and each rater are."""
    from dwindle.study import export
    from dwindle.study.store import Store

    with Store(folder) as store:
        counts, people = store.counts(), export.people(store, store.rows())
        if as_json:
            known = {"links": _links(store, url)} if links else {}
            facts = {
                "systems": store.systems,
                **counts,
                "identical": store.same,
                "raters": people,
                **known,
            }
            typer.echo(json.dumps(facts, indent=2))
            return
        typer.echo(
            f"{counts['answered']} of {count(counts['places'], 'ballot')}, "
            f"{count(counts['held'], 'item')} open; "
            f"{count(counts['pairs'], 'item')} and {count(counts['checks'], 'check')}, "
            f"{count(store.raters, 'rater')} each."
        )
        if store.same:
            typer.echo(_identical(store.identical, store.same))
        table = _table("rater", "ballots", "median s", "checks passed", "not counted", "code")
        for row in people:
            table.add_row(
                *(
                    escape(str(row[key]))
                    for key in ("name", "ballots", "seconds", "checks", "late", "code")
                )
            )
        _console().print(table)
        for row in people:
            for warning in row["warnings"]:
                _warn(f"{row['name']} {warning}")
        if links:
            _print_links(store, url)


@app.command("tally")
def tally(
    folder: Folder,
    pass_mark: PassMark = 0,
    table7: Annotated[
        bool, typer.Option("--table7", help="Print LaTeX in the layout of the paper's Table 7.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Count: wins and ties, three exact tests, agreement, factuality."""
    from dwindle.study.store import Store

    with Store(folder) as store:
        _print_tally(store, pass_mark, table7, as_json)


@app.command("export")
def export(
    folder: Folder,
    out: Annotated[Path | None, typer.Option(help="Folder for the files. Default: DIR.")] = None,
) -> None:
    """Write every ballot to ballots.csv and ballots.jsonl."""
    from dwindle.study import export as exports
    from dwindle.study.store import Store

    with Store(folder) as store:
        rows, systems, asked = store.rows(), store.systems, store.questions
    where = out or folder
    where.mkdir(parents=True, exist_ok=True)
    for name, lines in (("ballots.csv", exports.as_csv), ("ballots.jsonl", exports.as_jsonl)):
        with (where / name).open("w", encoding="utf-8", newline="") as file:
            file.writelines(lines(rows, systems, asked))
        typer.echo(f"{where / name}: {count(len(rows), 'ballot')}")


@app.command("mturk")
def mturk(
    folder: Folder,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files. Default: DIR/mturk.")
    ] = None,
) -> None:
    """Write the template and the input file for Amazon Mechanical Turk."""
    from dwindle.study import mturk as turk
    from dwindle.study.store import Store

    with Store(folder) as store:
        template, rows = turk.write(store, out or folder / "mturk")
        typer.echo(
            f"Paste {template} into a project's Design Layout, set "
            f"{count(store.raters, 'assignment')} per task, and"
        )
        typer.echo(
            f"publish a batch with {rows}. Then: dwindle study import-mturk RESULTS.csv --study "
            f"{folder}"
        )


@app.command("import-mturk")
def import_mturk(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS.csv", help="The batch's results.", show_default=False)
    ],
    study: Annotated[
        Path | None,
        typer.Option(help="The study folder. Default: the one that RESULTS.csv lies in."),
    ] = None,
    pass_mark: PassMark = 0,
    table7: Annotated[
        bool, typer.Option("--table7", help="Print LaTeX in the layout of the paper's Table 7.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Take the results of a Mechanical Turk batch into the study, and tally it."""
    from dwindle.study import mturk as turk
    from dwindle.study.store import Store

    with Store(study or turk.study_of(results)) as store:
        done = turk.enter(store, results)
        typer.echo(
            f"{count(done.entered, 'ballot')} entered, {done.known} known before, {done.rejected} "
            f"rejected, {done.incomplete} incomplete.",
            err=True,
        )
        _print_tally(store, pass_mark, table7, as_json)


def _identical(what: str, same: int) -> str:
    if what == "tie":
        return (
            f"Items with identical texts: {same} of the sample, not shown to raters, and ties in "
            "the tally."
        )
    return (
        f"Items with identical texts: {same} in the files, not sampled (--identical tie would "
        "count them)."
    )


def _warn(sentence: str) -> None:
    _console().print(f"[yellow]Warning: {escape(sentence)}.")


def _links(store: "Store", url: str | None) -> dict[str, str]:
    tokens, base = store.links(), (url or store.url or LOCAL).rstrip("/")
    people = {name: f"{base}/r/{token}" for name, token in tokens["raters"].items()}
    return {"owner": f"{base}/owner/{tokens['owner']}", **people}


def _print_links(store: "Store", url: str | None) -> None:
    """One link a line, whole: a wrapped link is a broken link."""
    for name, link in _links(store, url).items():
        typer.echo(f"{name:10} {link}")


def _print_tally(store: "Store", pass_mark: float, table7: bool, as_json: bool) -> None:
    from dwindle.study import export as exports
    from dwindle.study import tally as tallies

    ties = store.same if store.identical == "tie" else 0
    counted = tallies.tally(
        store.systems, store.rows(), pass_mark, store.questions, ties, store.raters
    )
    if as_json:
        typer.echo(json.dumps(asdict(counted), indent=2, ensure_ascii=False, allow_nan=False))
    elif table7:
        typer.echo(exports.table7(counted, store.questions), nl=False)
    else:
        _print_counted(counted, [question.title for question in store.questions.all])
        if store.same:
            typer.echo(_identical(store.identical, store.same))


def _print_counted(tally: "Tally", titles: list[str]) -> None:
    from dwindle.study.export import p_value

    console = _console()
    console.print(
        f"{count(tally.ballots, 'ballot')} on {count(tally.items, 'item')} by "
        f"{count(tally.raters, 'rater')}"
    )
    both, each = tally.comparisons, tally.verdicts
    a, b = (escape(name) for name in tally.systems)
    table = _table("", *titles[: len(both)])
    for name, counts in (
        (a, [c.wins_a for c in both]),
        (b, [c.wins_b for c in both]),
        ("tie", [c.ties for c in both]),
    ):
        table.add_row(
            name,
            *(f"{n} ({100 * n / c.judgements:.1f} %)" for n, c in zip(counts, both, strict=True)),
        )
    table.add_row(
        f"items: {a}, tied, {b}", *(f"{c.items_a}, {c.items_tied}, {c.items_b}" for c in both)
    )
    table.add_row("p, sign test", *(p_value(c.p_judgements) for c in both))
    table.add_row("p, sign test of items", *(p_value(c.p_items) for c in both))
    _print_with_agreement(table, both)
    if each:
        table = _table("", *(f"{title}, yes" for title in titles[len(both) :]))
        table.add_row(a, *(_interval(v.a) for v in each))
        table.add_row(b, *(_interval(v.b) for v in each))
        _print_with_agreement(table, each)
    if tally.checks:
        passed, seen = (sum(column) for column in zip(*tally.checks.values(), strict=True))
        console.print(f"[dim]Attention checks passed: {passed} of {seen}.")
    if tally.left_out:
        console.print(f"[dim]Left out for their checks: {escape(', '.join(tally.left_out))}.")
    if tally.late:
        console.print(
            f"[dim]Kept but not counted, for they came after the item was passed on: {tally.late}."
        )
    console.print(
        "[dim]Tests are exact and two-sided. The first takes the judgements of one item as "
        "independent, so its p is too small where raters agree: rely on the permutation of items."
    )
    for warning in tally.warnings:
        _warn(warning)


def _print_with_agreement(table: Table, questions: "Sequence[Comparison | Verdicts]") -> None:
    """Print a table of questions with the rows that both kinds of question have."""
    from dwindle.study.export import p_value

    table.add_row("p, permutation of items", *(p_value(q.p_clustered) for q in questions))
    table.add_row("pairwise agreement", *(_percent(q.agreement) for q in questions))
    table.add_row("Krippendorff's alpha", *(_decimal(q.alpha) for q in questions))
    _console().print(table)


def _interval(share: "Share") -> str:
    return escape(f"{100 * share.share:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _decimal(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _console() -> Console:
    """Wider than any terminal, so that a long line is wrapped there and never cut."""
    return Console(highlight=False, soft_wrap=True, width=1000)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(escape(column), no_wrap=True)
    return table
