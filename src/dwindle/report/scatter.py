"""Systems as points in a plane, with intervals in both directions and names that do not overlap.

Drawn as SVG: inside a page, whose style sheet has the colours, or as a file of its own, which then
carries them, for light and for dark. Knows nothing of what its axes mean.
"""

import functools
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from dwindle.report import page

_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 30, 44
_LETTER, _LINE, _GAP = 7.2, 15.0, 7.0
"""Usual width of a letter, height of a line, distance of name and point, at 12 pixels."""
_DISTANCES = (_GAP, 16.0, 28.0, 42.0, 58.0, 78.0, 100.0, 125.0)
_DIRECTIONS = 16

Range = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True)
class Axis:
    """The title of an axis, and a value to mark with a dashed line, with its name."""

    title: str
    mark: tuple[str, float] | None = None


@dataclass(frozen=True)
class Point:
    """A system: its values, their intervals, its colour's class, and whether it is a square."""

    name: str
    x: float
    y: float
    across: Range
    upright: Range
    colour: str
    square: bool = False


@dataclass(frozen=True)
class _Scale:
    """Maps values to pixels."""

    low: float
    high: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        return self.first + (value - self.low) / (self.high - self.low) * (self.last - self.first)

    def ticks(self) -> list[float]:
        """Three to seven round values."""
        rough = (self.high - self.low) / 5
        size = 10 ** math.floor(math.log10(rough))
        step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough)
        return [
            round(step * k, 9)
            for k in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)
        ]


def chart(
    title: str,
    across: Axis,
    upright: Axis,
    points: Sequence[Point],
    width: int = 440,
    height: int = 330,
) -> Markup:
    """Inline SVG for a page."""
    inside = "".join(_parts(title, across, upright, points, width, height))
    return Markup(
        f'<svg class="chart plane" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(title)}">{inside}</svg>'
    )


def file(
    title: str,
    across: Axis,
    upright: Axis,
    points: Sequence[Point],
    note: str = "",
    width: int = 680,
    height: int = 440,
) -> str:
    """A whole SVG file, on a ground of its own, with a note below, in as many lines as it takes."""
    inside = "".join(_parts(title, across, upright, points, width - 24, height - 20))
    lines = textwrap.wrap(note, int((width - 24) / _LETTER))
    below = "".join(
        f'<text class="label" x="12" y="{height + _LINE * n:.0f}">{escape(line)}</text>'
        for n, line in enumerate(lines)
    )
    whole = height + round(_LINE * len(lines))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {whole}" width="{width}" '
        f'height="{whole}" role="img" aria-label="{escape(title)}"><style>{_style()}</style>'
        f'<rect class="ground" width="{width}" height="{whole}" rx="8"/>'
        f'<g transform="translate(12 10)">{inside}</g>{below}</svg>\n'
    )


def _parts(
    title: str, across: Axis, upright: Axis, points: Sequence[Point], width: int, height: int
) -> Iterator[str]:
    x = _Scale(
        *_bounds([v for p in points for v in (p.x, *p.across)], across.mark), _LEFT, width - _RIGHT
    )
    y = _Scale(
        *_bounds([v for p in points for v in (p.y, *p.upright)], upright.mark),
        height - _BOTTOM,
        _TOP,
    )
    yield f'<text class="title" x="0" y="14">{escape(title)}</text>'
    yield from _axes(x, y, across, upright)
    bars = [bar for p in points for bar in _bars(p, x, y)]
    for (left, top, right, bottom), p in zip(
        bars, [p for p in points for _ in range(2)], strict=True
    ):
        line = f'x1="{left:.1f}" y1="{top:.1f}" x2="{right:.1f}" y2="{bottom:.1f}"'
        yield f'<line class="whisker {p.colour}" {line}/>'
    at = [(x(p.x), y(p.y)) for p in points]
    names = labels(
        [p.name for p in points], at, bars, (_LEFT + 2, _TOP, width - 2, height - _BOTTOM - 2)
    )
    for p, (px, py), box in zip(points, at, names, strict=True):
        yield from _point(p, px, py, box)


def _bounds(values: list[float], mark: tuple[str, float] | None) -> Range:
    """All values with some room around them; shares and scores do not go below zero."""
    known = [*values, *([mark[1]] if mark else [])]
    low, high = min(known), max(known)
    room = 0.08 * (high - low) or 1.0
    return (max(low - room, 0.0) if low >= 0 else low - room), high + room


def _bars(p: Point, x: _Scale, y: _Scale) -> tuple[Box, Box]:
    """Two lines for the intervals of a point."""
    (left, right), (low, high) = map(x, p.across), map(y, p.upright)
    return (left, y(p.y), right, y(p.y)), (x(p.x), high, x(p.x), low)


def _axes(x: _Scale, y: _Scale, across: Axis, upright: Axis) -> Iterator[str]:
    for value in x.ticks():
        yield (
            f'<line class="axis" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{y.last}" '
            f'y2="{y.first}"/>'
        )
        yield (
            f'<text class="tick" x="{x(value):.1f}" y="{y.first + 15}" '
            f'text-anchor="middle">{value:g}</text>'
        )
    for value in y.ticks():
        yield (
            f'<line class="axis" x1="{x.first}" x2="{x.last}" y1="{y(value):.1f}" '
            f'y2="{y(value):.1f}"/>'
        )
        yield (
            f'<text class="tick" x="{x.first - 6}" y="{y(value) + 4:.1f}" '
            f'text-anchor="end">{value:g}</text>'
        )
    middle = (y.first + y.last) / 2
    yield (
        f'<text class="label" x="{x.last}" y="{y.first + 34}" '
        f'text-anchor="end">{escape(across.title)}</text>'
    )
    yield (
        f'<text class="label" transform="translate(10 {middle:.1f}) rotate(-90)" '
        'text-anchor="middle">'
        f"{escape(upright.title)}</text>"
    )
    if across.mark:
        name, value = across.mark
        yield (
            f'<line class="mark" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{y.last}" '
            f'y2="{y.first}"/>'
        )
        yield f'<text class="tick" x="{x(value) + 4:.1f}" y="{y.first - 5}">{escape(name)}</text>'


def _point(p: Point, x: float, y: float, box: Box) -> Iterator[str]:
    tip = f"<title>{escape(p.name)}</title>"
    if p.square:
        yield (
            f'<rect class="dot {p.colour}" x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" '
            f'height="9">{tip}</rect>'
        )
    else:
        yield f'<circle class="dot {p.colour}" cx="{x:.1f}" cy="{y:.1f}" r="5">{tip}</circle>'
    left, _, _, bottom = box
    near = _nearest(box, (x, y))
    if math.dist((x, y), near) > 2 * _GAP:
        yield (
            f'<line class="leader {p.colour}" x1="{x:.1f}" y1="{y:.1f}" x2="{near[0]:.1f}" '
            f'y2="{near[1]:.1f}"/>'
        )
    yield f'<text class="name" x="{left:.1f}" y="{bottom - 3:.1f}">{escape(p.name)}</text>'


def labels(
    names: Sequence[str], at: Sequence[tuple[float, float]], bars: Sequence[Box], room: Box
) -> list[Box]:
    """Places of the names: near their own points and no nearer another, inside ``room``, not on
    another name or point, rather not on a bar."""
    dots = [(x - 5, y - 5, x + 5, y + 5) for x, y in at]
    placed: dict[int, Box] = {}
    for _ in range(3):  # what was placed first is placed again, knowing the others
        for k, name in enumerate(names):
            others = [box for j, box in placed.items() if j != k]

            def cost(box: Box, k: int = k, others: list[Box] = others) -> float:
                hard = sum(_shared(box, other) for other in others) + sum(
                    _shared(box, dot) for dot in dots
                )
                outside = _area(box) - _shared(box, room)
                soft = sum(_crossed(box, bar) for bar in bars)
                far = [math.dist(point, _nearest(box, point)) for point in at]
                strange = max(far[k] - min(far), 0.0)
                return 50 * (hard + outside + strange) + 5 * soft + math.dist(_middle(box), at[k])

            placed[k] = min(_candidates(name, *at[k]), key=cost)
    return [placed[k] for k in range(len(names))]


def _candidates(name: str, x: float, y: float) -> Iterator[Box]:
    """Boxes around a point, in all directions and at growing distances."""
    width = sum(_LETTER * (2 if ord(letter) > 0x2E80 else 1) for letter in name)
    for distance in _DISTANCES:
        for direction in range(_DIRECTIONS):
            angle = direction * 2 * math.pi / _DIRECTIONS
            dx, dy = math.cos(angle), math.sin(angle)
            middle = (
                x + dx * distance + (width / 2) * max(-1.0, min(1.0, 1.5 * dx)),
                y + dy * (distance + _LINE / 2),
            )
            yield (
                middle[0] - width / 2,
                middle[1] - _LINE / 2,
                middle[0] + width / 2,
                middle[1] + _LINE / 2,
            )


def _shared(a: Box, b: Box) -> float:
    """The area that two boxes share."""
    return max(min(a[2], b[2]) - max(a[0], b[0]), 0.0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0.0)


def _crossed(box: Box, bar: Box) -> float:
    """Length of the part of a bar that a box covers."""
    wide = max(min(box[2], bar[2]) - max(box[0], bar[0]), 0.0)
    tall = max(min(box[3], bar[3]) - max(box[1], bar[1]), 0.0)
    upright = bar[0] == bar[2]
    crosses = box[0] < bar[0] < box[2] if upright else box[1] < bar[1] < box[3]
    return (tall if upright else wide) if crosses else 0.0


def _nearest(box: Box, point: tuple[float, float]) -> tuple[float, float]:
    """The position in a box that is nearest to a point."""
    left, top, right, bottom = box
    return min(max(point[0], left), right), min(max(point[1], top), bottom)


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _middle(box: Box) -> tuple[float, float]:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


_RULES = """text{{font:12px system-ui,sans-serif;fill:{ink}}}
.title{{font-weight:600;font-size:14px}}
.tick,.label{{fill:{quiet}}} .axis{{stroke:{line}}} .ground{{fill:{paper}}}
.mark{{stroke:{quiet};stroke-dasharray:4 3}}
.whisker{{stroke-width:2;stroke-opacity:.55}} .leader{{stroke-width:1;stroke-opacity:.6}}"""


@functools.cache
def _style() -> str:
    """The colours of the pages, light and dark, as rules without variables, for any SVG reader."""
    both = re.findall(r"--(\w+): light-dark\((#\w+), (#\w+)\)", page.asset("page.css"))
    light, dark = ({name: colours[k] for name, *colours in both} for k in (0, 1))
    return f"{_coloured(light)} @media (prefers-color-scheme: dark){{{_coloured(dark)}}}"


def _coloured(colours: dict[str, str]) -> str:
    systems = [
        f".dot.{name}{{fill:{colour}}} .whisker.{name},.leader.{name}{{stroke:{colour}}}"
        for name, colour in colours.items()
        if re.fullmatch(r"s\d", name)
    ]
    return _RULES.format(**colours) + " ".join(systems)
