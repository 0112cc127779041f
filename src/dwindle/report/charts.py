"""Small charts as inline SVG, one panel a chart, 340 units wide so that a phone shows it unscaled.

Colours come from the page's style sheet by class, so that light, dark and print each have their
own. Text is escaped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

WIDTH, LABEL, ROW, TOP = 340, 118, 24, 26
_END = 58  # room for the number after a bar


@dataclass(frozen=True)
class Bar:
    """One system's bar: its name, length, what to write at its end, and the class of its colour."""

    name: str
    value: float
    text: str
    colour: str


@dataclass(frozen=True)
class Whisker:
    """One system's value or difference: where it is, its bounds if they are known, what to write,
    and its class."""

    name: str
    value: float
    low: float | None
    high: float | None
    text: str
    colour: str


def bars(title: str, rows: Sequence[Bar]) -> Markup:
    """Horizontal bars from zero."""
    scale = (WIDTH - LABEL - _END) / (max((row.value for row in rows), default=0) or 1)
    parts = []
    for k, row in enumerate(rows):
        y, length = TOP + k * ROW, max(row.value * scale, 1)
        parts.append(_label(row.name, y))
        parts.append(
            f'<rect class="bar {row.colour}" x="{LABEL}" y="{y + 4}" width="{length:.1f}" '
            'height="14" rx="1.5"/>'
        )
        parts.append(
            f'<text class="value" x="{LABEL + length + 6:.1f}" '
            f'y="{y + 15}">{escape(row.text)}</text>'
        )
    return _svg(title, parts, TOP + len(rows) * ROW + 4)


def forest(title: str, rows: Sequence[Whisker]) -> Markup:
    """Differences around zero with their intervals."""
    reach = (
        max(
            (abs(x) for row in rows for x in (row.value, row.low, row.high) if x is not None),
            default=0,
        )
        or 1
    )
    middle, half = LABEL + (WIDTH - LABEL - _END) / 2, (WIDTH - LABEL - _END) / 2 - 4
    height = TOP + len(rows) * ROW + 4
    axis = f'<line class="axis" x1="{middle}" x2="{middle}" y1="{TOP}" y2="{height - 4}"/>'
    return _svg(title, [axis, *_whiskers(rows, lambda x: middle + half * x / reach)], height)


def dots(title: str, rows: Sequence[Whisker]) -> Markup:
    """Values with their intervals, on a scale that begins and ends with them: it has no zero."""
    known = [x for row in rows for x in (row.value, row.low, row.high) if x is not None]
    least, reach = min(known), max(known) - min(known) or 1.0
    room = WIDTH - LABEL - _END - 8
    return _svg(
        title,
        _whiskers(rows, lambda x: LABEL + 4 + room * (x - least) / reach),
        TOP + len(rows) * ROW + 4,
    )


def _whiskers(rows: Sequence[Whisker], place: Callable[[float], float]) -> list[str]:
    """A dot, its interval, its name and its number for each row."""
    parts = []
    for k, row in enumerate(rows):
        y = TOP + k * ROW + 11
        parts.append(_label(row.name, y - 11))
        if row.low is not None and row.high is not None:
            ends = f'x1="{place(row.low):.1f}" x2="{place(row.high):.1f}"'
            parts.append(f'<line class="whisker {row.colour}" {ends} y1="{y}" y2="{y}"/>')
        parts.append(
            f'<circle class="dot {row.colour}" cx="{place(row.value):.1f}" cy="{y}" r="4.5"/>'
        )
        parts.append(
            f'<text class="value" x="{WIDTH}" y="{y + 4}" '
            f'text-anchor="end">{escape(row.text)}</text>'
        )
    return parts


def histogram(title: str, values: Sequence[float], left: str, right: str, bins: int = 41) -> Markup:
    """A histogram of values around zero, with one colour for either sign."""
    reach = float(np.quantile(np.abs(values), 0.995)) or 1.0
    counts, edges = np.histogram(np.clip(values, -reach, reach), bins=bins, range=(-reach, reach))
    step, tall, base = (WIDTH - 8) / bins, 84, TOP + 88
    parts = []
    for k, count in enumerate(counts):
        middle = (edges[k] + edges[k + 1]) / 2
        side = "even" if abs(middle) < reach / bins else "gain" if middle > 0 else "loss"
        height = tall * count / (counts.max() or 1)
        place = (
            f'x="{4 + k * step:.1f}" y="{base - height:.1f}" width="{step - 1:.1f}" '
            f'height="{height:.1f}"'
        )
        parts.append(f'<rect class="bar {side}" {place}/>')
    parts.append(f'<line class="axis" x1="4" x2="{WIDTH - 4}" y1="{base}" y2="{base}"/>')
    parts.append(f'<text class="tick" x="4" y="{base + 15}">{escape(left)}</text>')
    parts.append(
        f'<text class="tick" x="{WIDTH - 4}" y="{base + 15}" '
        f'text-anchor="end">{escape(right)}</text>'
    )
    return _svg(title, parts, base + 22)


def _label(name: str, y: float) -> str:
    short = name if len(name) <= 17 else f"{name[:16]}…"
    text = f"{escape(short)}<title>{escape(name)}</title>"
    return f'<text class="label" x="{LABEL - 8}" y="{y + 15}" text-anchor="end">{text}</text>'


def _svg(title: str, parts: list[str], height: float) -> Markup:
    head = f'<text class="title" x="0" y="14">{escape(title)}</text>'
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" role="img" '
        f'aria-label="{escape(title)}">{head}{"".join(parts)}</svg>'
    )
