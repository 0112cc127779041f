"""The sections of a report: for each what it says, its tables and charts, or the sentence that says
what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from markupsafe import Markup

from dwindle.analysis import tables
from dwindle.analysis.examples import Examples
from dwindle.analysis.left_out import THRESHOLD
from dwindle.analysis.measure import REFERENCE, Measured, is_score
from dwindle.analysis.views import Covered, known_parts, pages
from dwindle.metrics import entropy
from dwindle.metrics.catalogue import kind, title
from dwindle.metrics.table import Table
from dwindle.report import charts

_COLOURS = 8


@dataclass(frozen=True)
class Section:
    """One part of a page. ``data`` is what its script needs, under the name of its ``view``."""

    id: str
    title: str
    lead: str = ""
    tables: list[Table] = field(default_factory=list)
    charts: list[Markup] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    view: str = ""
    data: Any = None
    folded: bool = False
    """True to fold its tables at first, as reference material is."""
    wants: str = ""
    """The data that it lacks, for the line at the end of the page; empty to say nothing."""

    @property
    def empty(self) -> bool:
        """True if the section has nothing to show, and is left out of the page."""
        return not (self.tables or self.charts or self.view)


def present(made: Sequence[Section]) -> list[Section]:
    """The sections that have something to show."""
    return [section for section in made if not section.empty]


def more_data(made: Sequence[Section]) -> str:
    """One line on the data that absent sections lack; empty if none lacks any."""
    wanted = [
        f"{section.title} ({section.wants})" for section in made if section.empty and section.wants
    ]
    return f"With more data this page would also have: {'; '.join(wanted)}." if wanted else ""


def results(measured: Measured) -> Section:
    """Results, differences, and a chart of the differences."""
    section = Section("results", "Results")
    section.tables.append(tables.results(measured))
    if measured.arms[1:]:
        _add(section, tables.differences(measured))
    others = measured.arms[1:]
    for metric in measured.main[:6]:
        rows = []
        for arm in others:
            d = measured.difference(arm, metric)
            if d:
                tone = {"better": "gain", "worse": "loss"}.get(d.tone, "none")
                rows.append(charts.Whisker(arm, d.difference, d.low, d.high, d.text, tone))
        if rows:
            section.charts.append(
                charts.forest(f"{title(metric)}, difference to {measured.arms[0]}", rows)
            )
    return section


def differences(measured: Measured) -> Section:
    """A section that is never shown: it says that one system lacks a second to be compared with.

    Where there are several, the differences are in the results.
    """
    return Section(
        "differences",
        "Differences",
        wants="a second system on the same items" if alone(measured) else "",
    )


def alone(measured: Measured) -> bool:
    """True if the test set has one system only."""
    return len(measured.arms) == 1


def ablation(measured: Measured) -> Section:
    """Scores beside the settings in which systems differ."""
    wants = "recipes of the runs" if not alone(measured) else ""
    return replace(_one("ablation", "Like for like", tables.like_for_like(measured)), wants=wants)


def repetition(measured: Measured) -> Section:
    """Repeated n-grams, as in Figure 2."""
    section = _one("repetition", "Repetition", tables.repetitions(measured))
    section.charts.extend(_bars(measured, [f"repetition{n}" for n in (1, 2, 3, 4)]))
    return section


def novelty(measured: Measured) -> Section:
    """Novel n-grams and copied spans, as in Tables 14 and 15."""
    made = tables.novelty(measured)
    section = replace(_one("novelty", "Novelty", made), wants="the source of every item")
    if isinstance(made, Table):
        section.charts.extend(_bars(measured, [f"novelty{n}" for n in (1, 2, 3, 4, 5)]))
    return section


def layout(measured: Measured) -> Section:
    """Overlap with the first three sentences, as in Table 6."""
    return _one("layout", "Layout bias", tables.layout(measured))


def coverage(measured: Measured) -> Section:
    """Table 5, and a dot with its interval for each entropy."""
    scored = is_score(measured.main[0])
    wants = "the source of every item" if scored else "references"
    section = Section("entropy", "Coverage and length", wants=f"{wants}, or a run's coverage.npz")
    if not measured.has("entropy-raw") and not (scored and measured.halved):
        return section
    _add(section, tables.coverage(measured))
    if measured.arms[1:]:
        _add(section, tables.by_length(measured))
    for metric in (one.name for one in entropy.KINDS if not one.name.endswith("even")):
        rows = [
            charts.Whisker(
                arm,
                value.value,
                value.low,
                value.high,
                kind(metric).text(value.value),
                colour(measured, arm),
            )
            for arm in measured.arms
            if (value := measured.value(arm, metric))
        ]
        if rows:
            section.charts.append(charts.dots(title(metric), rows))
    return section


def looked_at(found: Examples) -> Section:
    """The examples, and how the gains of all items spread."""
    shown, total = len(found.items), found.total
    lead = f"All {total:,} items."
    if shown < total:
        kept = (
            "the largest gains and losses of every system"
            if found.gains
            else "the worst by each criterion"
        )
        lead = f"{shown:,} of {total:,} items: {kept}, and a random draw."
    section = Section("examples", "Examples", lead, view="examples", data=found.data())
    if not found.metrics:
        return section
    metric, name, _ = found.metrics[0]
    for arm, gains in found.gains.items():
        up, down = sum(g > 0 for g in gains[metric]), sum(g < 0 for g in gains[metric])
        section.charts.append(
            charts.histogram(
                f"{name} of each item, {arm}",
                gains[metric],
                f"◂ {down:,} worse",
                f"{up:,} better than {found.systems[0]} ▸",
            )
        )
    return section


LIMITS = (
    "Coverage shows what was used, not whether it was told correctly. A sentence that was hardly "
    "used is likely "
    "left out; one that was used much may still be told wrongly; and what the model knew without "
    "looking leaves no trace."
)


def read_how(measured: Measured, found: Sequence[Covered], telling: list[int]) -> Section:
    """The coverage view."""
    items = pages(measured, found, telling)
    section = Section(
        "coverage",
        "What was read",
        LIMITS,
        wants="a run's coverage.npz, or 'dwindle coverage' for a text",
    )
    if not items:
        return section
    data = {"systems": measured.arms, "items": items, "threshold": THRESHOLD}
    return replace(section, view="coverage", data=data)


def left_out(measured: Measured, found: Sequence[Covered]) -> Section:
    """A measurement of how far the coverage view can be believed."""
    made = tables.left_out(known_parts(measured, found))
    lead = (
        "Parts of the source that the output does not state, by the synthetic world's own count, "
        "told from coverage "
        "and from two rivals. AUROC is the chance that a part that was left out has less than one "
        "that was not; 0.5 is "
        "guessing. Thresholds are chosen on half of the items; precision and recall are of the "
        "other half."
    )
    return Section("left-out", "How well coverage tells", lead, made)


def settings(measured: Measured) -> Section:
    """Every setting and signature."""
    section = Section("settings", "Settings", folded=True)
    section.tables.extend(tables.settings(measured.test.arms))
    section.tables.append(tables.signatures(measured))
    section.missing.extend(measured.notes)
    return section


def paper(found: list[Table]) -> Section:
    lead = (
        "What the paper printed, and what was run here. Items, tools and training differ, so the "
        "columns stand side by side and no difference is taken."
    )
    return Section("paper", "Beside the paper", lead, found, folded=True)


def _one(id: str, title: str, made: tables.Made) -> Section:
    section = Section(id, title)
    _add(section, made)
    return section


def _add(section: Section, made: tables.Made) -> None:
    if isinstance(made, Table):
        section.tables.append(made)
    else:
        section.missing.append(made)


def _bars(measured: Measured, metrics: list[str]) -> list[Markup]:
    """A panel for each n: the reference in its own colour, then the arms."""
    panels = []
    for metric in metrics:
        rows = []
        for name in [REFERENCE, *measured.arms]:
            value = measured.value(name, metric)
            if value:
                rows.append(
                    charts.Bar(
                        name, value.value, kind(metric).text(value.value), colour(measured, name)
                    )
                )
        if rows:
            panels.append(charts.bars(title(metric), rows))
    return panels


def colour(measured: Measured, name: str) -> str:
    """The class of a system's colour: the same in every chart."""
    return "ref" if name == REFERENCE else f"s{measured.arms.index(name) % _COLOURS}"
