"""The score against repeated trigrams: every system as a point, for a page or a README.

What a method gains in one and pays in the other is seen at a glance. Values are means over seeds;
the bars are 95 % intervals over items and seeds. Knows nothing of how points are drawn.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from markupsafe import Markup

from dwindle.analysis.measure import REFERENCE, REPEATED, Measured
from dwindle.metrics import repetition
from dwindle.metrics.catalogue import kind, title
from dwindle.report import scatter
from dwindle.report.scatter import Axis, Point
from dwindle.report.sections import Section, colour


class _Way(NamedTuple):
    """A colour and its meaning."""

    colour: str
    words: str


WAYS = {
    "trained": _Way("s1", "blue: trained with the method"),
    "decoding": _Way("s2", "orange: the base's model, with a rule while decoding"),
    "search": _Way("s3", "green squares: the base's model, another search"),
}
"""Ways in which a system differs from the base. Colours are those of the report's style sheet."""


@dataclass(frozen=True)
class Tradeoff:
    """A chart that can be drawn."""

    title: str
    across: Axis
    upright: Axis
    points: list[Point]
    bars: str
    """Words that say what the bars stand for."""

    ways: tuple[str, ...] = ()
    """Ways in which the systems were made, as far as recipes say: names of ``WAYS``."""

    @property
    def note(self) -> str:
        legend = f" {self.legend[0].upper()}{self.legend[1:]}." if self.legend else ""
        return f"Bars are {self.bars}: of each system by itself, not of differences.{legend}"

    @property
    def legend(self) -> str:
        """The meaning of the colours, in words: nothing where each system has its own."""
        return "; ".join(WAYS[way].words for way in WAYS if way in self.ways)

    def chart(self) -> Markup:
        return scatter.chart(self.title, self.across, self.upright, self.points)

    def file(self) -> str:
        legend = f"; {self.legend}" if self.legend else ""
        return scatter.file(
            self.title, self.across, self.upright, self.points, f"{self.bars}{legend}"
        )


def section(measured: Measured) -> Section:
    """The chart on the page."""
    found, made = tradeoff(measured), Section("tradeoff", "Score and repetition")
    if found is None:
        return replace(made, wants="two systems and a score")
    return replace(made, lead=found.note, charts=[found.chart()])


def tradeoff(measured: Measured) -> Tradeoff | None:
    """The chart of a test set; None for one system, or where only repetition is measured."""
    metric = next((m for m in measured.main if _is_score(measured, m)), None)
    if metric is None or len(measured.arms) < 2:
        return None
    ways = [_way(measured, arm) for arm in measured.arms]
    points = [
        _point(measured, arm, metric, way) for arm, way in zip(measured.arms, ways, strict=True)
    ]
    reference = measured.value(REFERENCE, REPEATED)
    mark = (REFERENCE, reference.value) if reference else None
    synthetic = " (synthetic data)" if measured.test.synthetic else ""
    return Tradeoff(
        f"{title(metric, unit=False)} against repeated 3-grams{synthetic}",
        Axis(f"repeated 3-grams, % {kind(REPEATED).arrow}".strip(), mark),
        Axis(f"{title(metric)} {kind(metric).arrow}".strip()),
        points,
        _bars(measured),
        tuple(way for way in ways if way),
    )


def _is_score(measured: Measured, metric: str) -> bool:
    """True if a metric can be plotted against repetition: measured here, with a direction."""
    known = metric in measured.metrics and all(measured.value(arm, metric) for arm in measured.arms)
    return known and bool(kind(metric).better) and kind(metric) not in repetition.KINDS


def _point(measured: Measured, arm: str, metric: str, way: str) -> Point:
    x, y = measured.value(arm, REPEATED), measured.value(arm, metric)
    assert x
    assert y
    across, upright = measured.interval(arm, REPEATED), measured.interval(arm, metric)
    own = WAYS[way].colour if way else colour(measured, arm)
    return Point(arm, x.value, y.value, across, upright, own, way == "search")


def _way(measured: Measured, arm: str) -> str:
    """The way in which a system differs from the base, a name of ``WAYS``; empty for the base, or
    if a recipe is not known."""
    recipes: list[dict[str, Any]] = [one.recipe for one in measured.test.arms]
    base, own = recipes[0], recipes[measured.arms.index(arm)]
    if not (base and own):
        return ""
    # imported here because it brings the settings of every room, and torch
    from dwindle.runs.recipe import changes

    changed = [change for change in changes(base, own) if change.purpose != "asked"]
    if not changed:
        return ""
    if all(change.purpose == "search" for change in changed):
        return "search"
    return (
        "decoding" if all(change.key.startswith("decoding.") for change in changed) else "trained"
    )


def _bars(measured: Measured) -> str:
    seeds = max(len(arm.runs) for arm in measured.test.arms)
    return (
        f"95 % intervals over items and {seeds} seeds" if seeds > 1 else "95 % intervals over items"
    )
