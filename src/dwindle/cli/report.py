"""``dwindle report PATH...``: tables, figures and examples of runs and outputs in one HTML file."""

from pathlib import Path
from typing import Annotated

import typer

from dwindle.cli import systems, terminal


def report(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN_OR_OUTPUTS...",
            help="Run folders, arena folders, files of outputs (JSONL, CSV, TSV, Parquet, a "
            "datasets folder). The first is the base.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    md: Annotated[
        Path | None, typer.Option("--md", help="Also write the tables as Markdown to this file.")
    ] = None,
    latex: Annotated[
        Path | None, typer.Option("--latex", help="Also write the tables as LaTeX to this file.")
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option("--figures", help="Also draw the figures into this folder, PNG and SVG."),
    ] = None,
    hyp: systems.Hypotheses = None,
    ref: systems.References = None,
    src: systems.Sources = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="translation or text (all else). Default: told from sources and outputs.",
            show_default=False,
        ),
    ] = None,
    metrics: systems.Metrics = None,
    lead3: systems.Lead = False,
    names: systems.Names = None,
    workers: systems.Workers = None,
) -> None:
    """Write a report: results, what was left out, the worst items, and of several systems their
    differences.

    The page needs no network and can be passed on. The chart of scores against repetition is also
    written beside it, as an SVG file for a README. Systems that answer the same items are compared
    with each other.
    """
    systems.need_metrics()
    try:
        import jinja2  # noqa: F401
    except ModuleNotFoundError:
        raise ValueError("a report needs jinja2: type pip install 'dwindle[report]'") from None
    from dwindle.analysis.arms import TASKS
    from dwindle.report import figures as drawing
    from dwindle.report import page
    from dwindle.report import report as made
    from dwindle.runfiles.run import AlignedRun, Run
    from dwindle.system.machine import cores

    systems.check_named(paths, hyp, ref, src)
    kind = next((one for one in TASKS if one == task), None)
    if task and not kind:
        raise ValueError(f"no task is called {task!r}: write {' or '.join(TASKS)}")
    named: list[str | Path | Run] = [
        *(paths or []),
        *(AlignedRun(file, ref or [], src) for file in hyp or []),
    ]
    read = [*(paths or []), *(hyp or []), *(ref or []), *([src] if src else [])]
    for target in filter(None, (out, md, latex)):
        terminal.check_apart(target, read)
    asked = [name.strip() for name in metrics.split(",") if name.strip()] if metrics else None
    called = [name.strip() for name in names.split(",")] if names else None
    with terminal.progress() as tell:
        whole = made.make(named, asked, lead3, workers or cores(), called, tell, kind)
        written = [(out, made.html(whole))]
        written += [
            (out.with_name(out.stem + ending), chart)
            for ending, chart in made.charts(whole).items()
        ]
        written += [(md, made.markdown(whole))] if md else []
        written += [(latex, made.latex(whole))] if latex else []
        for path, text in written:
            page.write(path, text)
        drawn = drawing.draw(whole.tests, figures) if figures else []
    for sentence in whole.missing:
        typer.echo(f"dwindle: {sentence}", err=True)
    for path, text in written:
        size = len(text.encode())
        typer.echo(
            f"{path} ({size / 1e6:.1f} MB)" if size > 1e6 else f"{path} ({size / 1e3:.0f} kB)"
        )
    for path in drawn:
        typer.echo(path)
