"""``dwindle report PATH...``: tables, figures and examples of runs and outputs in one HTML file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dwindle.cli import systems


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_OR_OUTPUTS...", help="Run folders, arena folders, outputs.jsonl files. The first is the base."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    md: Annotated[Path | None, typer.Option("--md", help="Also write the tables as Markdown to this file.")] = None,
    latex: Annotated[Path | None, typer.Option("--latex", help="Also write the tables as LaTeX to this file.")] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Also draw the figures into this folder, PNG and SVG.")
    ] = None,
    metrics: systems.Metrics = None,
    lead3: systems.Lead = False,
    names: systems.Names = None,
    workers: systems.Workers = None,
) -> None:
    """Write a report: results with differences and confidence, analyses, examples side by side, settings.

    The page needs no network and can be passed on. The chart of scores against repetition is also written beside it, as
    an SVG file for a README. Systems that answer the same items are compared with each other.
    """
    systems.need_metrics()
    try:
        import jinja2  # noqa: F401
    except ModuleNotFoundError:
        raise ValueError("a report needs jinja2: type pip install 'dwindle[report]'") from None
    from dwindle.folder.machine import cores
    from dwindle.report import figures as drawing
    from dwindle.report import page
    from dwindle.report import report as made

    asked = [name.strip() for name in metrics.split(",") if name.strip()] if metrics else None
    called = [name.strip() for name in names.split(",")] if names else None
    with Console(stderr=True).status("reading") as status:
        whole = made.make(
            paths, asked, lead3, workers or cores(), called, lambda name, done: status.update(f"measuring {name}")
        )
        status.update("writing")
        written = [(out, made.html(whole))]
        written += [(out.with_name(out.stem + ending), chart) for ending, chart in made.charts(whole).items()]
        written += [(md, made.markdown(whole))] if md else []
        written += [(latex, made.latex(whole))] if latex else []
        for path, text in written:
            page.write(path, text)
        drawn = drawing.draw(whole.tests, figures) if figures else []
    for sentence in whole.missing:
        typer.echo(f"dwindle: {sentence}", err=True)
    for path, text in written:
        typer.echo(f"{path} ({len(text.encode()) / 1e6:.1f} MB)")
    for path in drawn:
        typer.echo(path)
