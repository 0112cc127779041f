"""The score against repeated trigrams: every system as a point, for a page and as a file for a README.

What a method gains in one and pays in the other is seen at a glance. Values are means over seeds; the bars are 95 %
intervals over items and seeds. Knows nothing of how points are drawn.
"""

from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from dwindle.analysis.measure import REFERENCE, REPEATED, Measured
from dwindle.metrics import repetition
from dwindle.metrics.catalogue import kind, title
from dwindle.report import plane
from dwindle.report.plane import Axis, Point
from dwindle.report.sections import Section, colour


@dataclass(frozen=True)
class Tradeoff:
    """A chart that can be drawn."""

    title: str
    across: Axis
    upright: Axis
    points: list[Point]
    bars: str
    """What the bars are."""

    @property
    def note(self) -> str:
        squares = " Squares differ from the base in the search alone." if self._has_squares else ""
        return f"Bars are {self.bars}: of each system by itself, not of differences.{squares}"

    @property
    def _has_squares(self) -> bool:
        return any(point.square for point in self.points)

    def chart(self) -> Markup:
        return plane.chart(self.title, self.across, self.upright, self.points)

    def file(self) -> str:
        squares = "; squares: another search" if self._has_squares else ""
        return plane.file(self.title, self.across, self.upright, self.points, f"{self.bars}{squares}")


def section(measured: Measured) -> Section:
    """The chart on the page."""
    found, made = tradeoff(measured), Section("tradeoff", "Score and repetition", short="Trade-off")
    if found is None:
        made.missing.append("This chart needs two systems or more, and a score beside repetition.")
        return made
    return replace(made, lead=found.note, charts=[found.chart()])


def tradeoff(measured: Measured) -> Tradeoff | None:
    """Of all systems of a test set; None for one system, or where nothing but repetition is measured."""
    metric = next((m for m in measured.main if _is_score(measured, m)), None)
    if metric is None or len(measured.arms) < 2:
        return None
    points = [_point(measured, arm, metric) for arm in measured.arms]
    reference = measured.value(REFERENCE, REPEATED)
    mark = (REFERENCE, reference.value) if reference else None
    synthetic = " (synthetic data)" if measured.test.synthetic else ""
    return Tradeoff(
        f"{title(metric, unit=False)} against repeated 3-grams{synthetic}",
        Axis(f"repeated 3-grams, % {kind(REPEATED).arrow}".strip(), mark),
        Axis(f"{title(metric)} {kind(metric).arrow}".strip()),
        points,
        _bars(measured),
    )


def _is_score(measured: Measured, metric: str) -> bool:
    """Whether it can be set against repetition: it says what is better, was measured here, and is not repetition."""
    known = metric in measured.metrics and all(measured.value(arm, metric) for arm in measured.arms)
    return known and bool(kind(metric).better) and kind(metric) not in repetition.KINDS


def _point(measured: Measured, arm: str, metric: str) -> Point:
    x, y = measured.value(arm, REPEATED), measured.value(arm, metric)
    assert x
    assert y
    across, upright = measured.interval(arm, REPEATED), measured.interval(arm, metric)
    return Point(arm, x.value, y.value, across, upright, colour(measured, arm), _is_search(measured, arm))


def _is_search(measured: Measured, arm: str) -> bool:
    """Whether a system differs from the base in the search alone."""
    recipes: list[dict[str, Any]] = [one.recipe for one in measured.test.arms]
    base, own = recipes[0], recipes[measured.arms.index(arm)]
    if not (base and own):
        return False
    from dwindle.runs.recipe import changes  # with the settings of every room, and so with torch: only here

    return {change.purpose for change in changes(base, own)} - {"asked"} == {"search"}


def _bars(measured: Measured) -> str:
    seeds = max(len(arm.runs) for arm in measured.test.arms)
    return f"95 % intervals over items and {seeds} seeds" if seeds > 1 else "95 % intervals over items"
