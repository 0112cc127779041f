"""The report: from run folders and outputs to one HTML page, or to tables (Markdown, LaTeX)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dwindle import __version__
from dwindle.analysis import arms, published, tables
from dwindle.analysis.arms import Task
from dwindle.analysis.examples import examples
from dwindle.analysis.measure import Measured, Progress, measure
from dwindle.analysis.views import Covered, covered
from dwindle.metrics import text_tables
from dwindle.metrics.table import count
from dwindle.metrics.text_tables import Block
from dwindle.report import omissions_section, page, sections, tradeoff
from dwindle.report.sections import Section
from dwindle.runfiles.run import Run


@dataclass(frozen=True)
class Report:
    """All measured test sets, and a sentence for everything that was missing."""

    tests: list[Measured]
    missing: tuple[str, ...]


def make(
    paths: Sequence[str | Path | Run],
    metrics: Sequence[str] | None = None,
    lead3: bool = False,
    workers: int = 1,
    called: Sequence[str] | None = None,
    progress: Progress = lambda name, done, total: None,
    task: Task | None = None,
) -> Report:
    """Read and measure everything that ``paths`` name.

    Args:
        paths: run folders, arena folders, files of outputs, or runs that were made from
            line-aligned files.
        metrics: of the results table; None takes those of the recipe, or what is usual for the
            task.
        called: a name for each system.
        task: of the outputs; None tells it from their texts.
    """
    shown = arms.read(paths, called)
    return Report(
        [measure(test, metrics, lead3, workers, progress, task) for test in shown.tests],
        shown.missing,
    )


def html(report: Report) -> str:
    """The whole report as one page."""
    made = [(measured, _sections(measured)) for measured in report.tests]
    blocks = [
        (_heading(report, measured), sections.present(parts), sections.more_data(parts))
        for measured, parts in made
    ]
    abouts = [
        [_about(measured, block[0]), *tables.summary(measured)]
        for (measured, _), block in zip(made, blocks, strict=True)
    ]
    last = sections.present([sections.paper(published.tables(report.tests))])
    return page.render(
        "report.html",
        blocks=blocks,
        abouts=abouts,
        last=last,
        missing=report.missing,
        version=__version__,
    )


def charts(report: Report) -> dict[str, str]:
    """The score of each test set against repetition, as SVG files by the endings of their names."""
    made = {}
    names = [measured.test.name for measured in report.tests]
    for measured in report.tests:
        found = tradeoff.tradeoff(measured)
        if found:
            name = measured.test.name
            short = name if names.count(name) == 1 else _heading(report, measured)
            made[
                f"-tradeoff-{text_tables.slug(short)}.svg" if len(names) > 1 else "-tradeoff.svg"
            ] = found.file()
    return made


def markdown(report: Report) -> str:
    """The report's tables for a README or an issue."""
    return text_tables.markdown(_titled(report))


def latex(report: Report) -> str:
    """The report's tables for a paper (booktabs)."""
    return text_tables.latex(_titled(report))


def _titled(report: Report) -> list[Block]:
    blocks: list[Block] = []
    for measured in report.tests:
        parts, heading = _tabular(measured), _heading(report, measured)
        blocks += [
            (f"{heading}: {part.title}", part.tables, part.missing)
            for part in sections.present(parts)
        ]
        more = sections.more_data(parts)
        blocks += [(f"{heading}: more data", [], [more])] if more else []
    paper = published.tables(report.tests)
    blocks += [("Beside the paper", paper, [])] if paper else []
    return [*blocks, ("Missing", [], list(report.missing))] if report.missing else blocks


def _heading(report: Report, measured: Measured) -> str:
    """The heading: the corpus where it is known, else the systems."""
    names = [_corpus_or_systems(one) for one in report.tests]
    name = _corpus_or_systems(measured)
    return name if names.count(name) == 1 else f"{name} ({', '.join(measured.arms)})"


def _corpus_or_systems(measured: Measured) -> str:
    name, base = measured.test.name, measured.test.arms[0].name
    return _systems(measured) if name == base else name


def _systems(measured: Measured) -> str:
    base, *others = measured.test.arms
    return f"{base.name} against {', '.join(arm.name for arm in others)}" if others else base.name


def _about(measured: Measured, heading: str) -> str:
    """One line under the heading: the systems and items, unless the heading names them."""
    seeds = max(len(arm.runs) for arm in measured.test.arms)
    systems = "" if heading == _systems(measured) else f"{_systems(measured)}; "
    items = count(len(measured.test.items), "item")
    synthetic = " of synthetic data" if measured.test.synthetic else ""
    return f"{systems}{items}{synthetic}" + (f", {seeds} seeds." if seeds > 1 else ".")


def _tabular(measured: Measured) -> list[Section]:
    """The sections with tables. Nearly all words of a translation are new, so it has none on
    novelty or layout."""
    makers = [sections.results, sections.differences, sections.ablation, sections.repetition]
    makers += [sections.novelty, sections.layout] if measured.task == "text" else []
    makers += [sections.coverage, sections.settings]
    return [_labelled(make(measured), measured) for make in makers]


def _labelled(section: Section, measured: Measured) -> Section:
    """Tables of synthetic data say so in their caption, wherever they are pasted."""
    if not measured.test.synthetic:
        return section
    return replace(
        section,
        tables=[replace(t, caption=f"{t.caption} (synthetic data)") for t in section.tables],
    )


def _sections(measured: Measured) -> list[Section]:
    """All sections in order: results, what was left out; one system's worst items; the analyses."""
    results, *first, settings = _tabular(measured)
    shown = examples(measured)
    found = [_covered(arm.runs[0], measured) for arm in measured.test.arms]
    looked_at = sections.looked_at(shown)
    read_how = sections.read_how(measured, found, shown.telling)
    left_out = _labelled(sections.left_out(measured, found), measured)
    first = [tradeoff.section(measured), *first]
    seen = (
        [looked_at, *first, read_how] if sections.alone(measured) else [*first, looked_at, read_how]
    )
    pictures = _pictures(measured, found)
    return [
        results,
        omissions_section.audited_section(measured),
        *seen,
        *pictures,
        left_out,
        settings,
    ]


def _pictures(measured: Measured, found: Sequence[Covered]) -> list[Section]:
    """Sections that only images have. Pillow, which draws them, is an extra."""
    gold = measured.test.items[0].extra.get("gold")
    if not isinstance(gold, dict) or gold.get("world") != "scenes":
        return []
    from dwindle.report import regions

    return [regions.section(measured, found)]


def _covered(run: Run, measured: Measured) -> Covered:
    """A run's coverage; for a file that cannot be read, a sentence is noted."""
    try:
        return covered(run)
    except ValueError as error:
        measured.notes.append(str(error))
        return Covered({}, {}, {}, {})
