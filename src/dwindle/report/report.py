"""The report: from run folders and outputs to one HTML page, or to its tables as Markdown or LaTeX."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dwindle import __version__
from dwindle.analysis import arms, published, tables
from dwindle.analysis.examples import examples
from dwindle.analysis.measure import Measured, measure
from dwindle.analysis.views import Covered, covered
from dwindle.folder.run import Run
from dwindle.metrics.numbers import count
from dwindle.report import heard, page, plain, sections, tradeoff
from dwindle.report.plain import Block
from dwindle.report.sections import Section


@dataclass(frozen=True)
class Report:
    """Everything measured, and what was missing."""

    tests: list[Measured]
    missing: tuple[str, ...]


def make(
    paths: Sequence[str | Path],
    metrics: Sequence[str] | None = None,
    lead3: bool = False,
    workers: int = 1,
    called: Sequence[str] | None = None,
    progress: Callable[[str, int], None] = lambda name, done: None,
) -> Report:
    """Read and measure everything that ``paths`` name; ``called`` has a name for each system."""
    shown = arms.read(paths, called)
    return Report([measure(test, metrics, lead3, workers, progress) for test in shown.tests], shown.missing)


def html(report: Report) -> str:
    """The whole report as one page."""
    blocks = [(_heading(report, measured), _sections(measured)) for measured in report.tests]
    abouts = [[_about(measured), *tables.summary(measured)] for measured in report.tests]
    last = [sections.paper(published.tables(report.tests))]
    return page.render(
        "report.html", blocks=blocks, abouts=abouts, last=last, missing=report.missing, version=__version__
    )


def charts(report: Report) -> dict[str, str]:
    """The score of each test set against repetition, as SVG files by the endings of their names."""
    made = {}
    for measured in report.tests:
        found = tradeoff.tradeoff(measured)
        if found:
            ending = f"-{plain.slug(_heading(report, measured))}" if len(report.tests) > 1 else ""
            made[f"-tradeoff{ending}.svg"] = found.file()
    return made


def markdown(report: Report) -> str:
    """The report's tables for a README or an issue."""
    return plain.markdown(_titled(report))


def latex(report: Report) -> str:
    """The report's tables for a paper (booktabs)."""
    return plain.latex(_titled(report))


def _titled(report: Report) -> list[Block]:
    blocks = [
        (f"{_heading(report, measured)}: {section.title}", section.tables, section.missing)
        for measured in report.tests
        for section in _tabular(measured)
    ]
    return [*blocks, ("Beside the paper", published.tables(report.tests), list(report.missing))]


def _heading(report: Report, measured: Measured) -> str:
    names = [one.test.name for one in report.tests]
    name = measured.test.name
    return name if names.count(name) == 1 else f"{name} ({', '.join(measured.arms)})"


def _about(measured: Measured) -> str:
    """One line under the heading: who is compared on what."""
    base, *others = measured.test.arms
    seeds = max(len(arm.runs) for arm in measured.test.arms)
    systems = f"{base.name} against {', '.join(arm.name for arm in others)}" if others else base.name
    items = count(len(measured.test.items), "item")
    synthetic = " of synthetic data" if measured.test.synthetic else ""
    return f"{systems}; {items}{synthetic}" + (f", {seeds} seeds." if seeds > 1 else ".")


def _tabular(measured: Measured) -> list[Section]:
    makers = (
        *(sections.results, sections.ablation, sections.repetition, sections.novelty),
        *(sections.layout, sections.coverage, sections.settings),
    )
    return [_labelled(make(measured), measured) for make in makers]


def _labelled(section: Section, measured: Measured) -> Section:
    """Every table of synthetic data says so, wherever it will stand."""
    if not measured.test.synthetic:
        return section
    return replace(section, tables=[replace(t, caption=f"{t.caption} (synthetic data)") for t in section.tables])


def _sections(measured: Measured) -> list[Section]:
    results, *first, settings = _tabular(measured)
    shown = examples(measured)
    found = [_covered(arm.runs[0], measured) for arm in measured.test.arms]
    seen = [sections.looked_at(shown), sections.read_how(measured, found, shown.telling)]
    left_out = _labelled(sections.left_out(measured, found), measured)
    pictures = _pictures(measured, found)
    judged = [heard.audited_section(measured), left_out]
    return [results, tradeoff.section(measured), *first, *seen, *pictures, *judged, settings]


def _pictures(measured: Measured, found: Sequence[Covered]) -> list[Section]:
    """What images have and texts have not; Pillow, which draws it, is an extra."""
    gold = measured.test.items[0].extra.get("gold")
    if not isinstance(gold, dict) or gold.get("world") != "scenes":
        return []
    from dwindle.report import regions

    return [regions.section(measured, found)]


def _covered(run: Run, measured: Measured) -> Covered:
    """A run's coverage; a file that cannot be read is a sentence."""
    try:
        return covered(run)
    except ValueError as error:
        measured.notes.append(str(error))
        return Covered({}, {}, {}, {})
