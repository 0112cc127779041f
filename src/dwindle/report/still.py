"""A still picture of what an output left out: the source with its marks beside the output, as SVG,
light and dark.

Letters stand in a grid, and each line has a fixed width in whatever font the reader has, so that a
mark stands exactly behind its words. Texts are escaped. Knows nothing of how the marks came about.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from html import escape

WIDTH, MARGIN, LINE, COLUMNS = 430, 18, 24, 54
CELL = 13 * 0.602
"""Width of a cell. Chinese, Japanese and Korean letters take two cells."""
STYLE = """
text { font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono",
    "Noto Sans Mono CJK SC", monospace }
text { fill: #1c2733; white-space: pre }
.page { fill: #fff; stroke: #cfd8e3 } .mark { fill: #fbdf9b } .rule { stroke: #cfd8e3 }
.name { font: bold 14px system-ui, sans-serif }
.note { font: 13px system-ui, sans-serif; fill: #55616f }
.alarm { fill: #8f3d00; font-weight: bold }
@media (prefers-color-scheme: dark) {
  text { fill: #dce5ee } .page { fill: #10171f; stroke: #2c3947 } .mark { fill: #6b4a00 }
  .rule { stroke: #2c3947 } .note { fill: #a9b8c6 } .alarm { fill: #ffc078 }
}
"""


def still(
    source: str,
    output: str,
    spans: Sequence[tuple[int, int]],
    said: str,
    names: tuple[str, str] = ("Source", "Output"),
    alarm: bool = False,
) -> str:
    """The picture; ``spans`` are marked stretches of the source, ``said`` is the line below it."""
    left, right = list(_lines(source)), list(_lines(output))
    top, middle = MARGIN + 44, MARGIN + WIDTH + MARGIN
    wide, high = middle + WIDTH + MARGIN, top + LINE * max(len(left), len(right)) + 34
    parts = [f'<rect class="page" x=".5" y=".5" width="{wide - 1}" height="{high - 1}" rx="8"/>']
    parts += [
        _text("name", x, MARGIN + 14, name) for x, name in zip((MARGIN, middle), names, strict=True)
    ]
    for n, (start, line) in enumerate(left):
        y = top + n * LINE
        parts += [
            _mark(start, line, span, y)
            for span in spans
            if span[0] < start + len(line) and start < span[1]
        ]
        parts.append(_in_grid(MARGIN, y, line))
    parts += [_in_grid(middle, top + n * LINE, line) for n, (_, line) in enumerate(right)]
    parts.append(f'<path class="rule" d="M{middle - MARGIN / 2} {MARGIN}V{high - MARGIN}"/>')
    parts.append(_text("note alarm" if alarm else "note", MARGIN, high - MARGIN, said))
    title = (
        "A source with what its output leaves out marked: "
        f"{'; '.join(source[a:b] for a, b in spans) or 'nothing'}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" '
        f'height="{high}" '
        f'role="img"><title>{escape(title)}</title><style>{STYLE}</style>{"".join(parts)}</svg>\n'
    )


def cells(text: str) -> int:
    """Width of a text in cells of the grid."""
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines of at most ``COLUMNS`` cells, each with where it starts in the text, broken at a space
    if there is one."""
    start = 0
    while start < len(text):
        end, used = start, 0
        while (
            end < len(text) and text[end] != "\n" and (used := used + cells(text[end])) <= COLUMNS
        ):
            end += 1
        if (
            end < len(text)
            and text[end] not in " \n"
            and (space := text.rfind(" ", start, end)) > start
        ):
            end = space
        yield start, text[start:end]
        start = end + (end < len(text) and text[end] in " \n")


def _mark(start: int, line: str, span: tuple[int, int], y: float) -> str:
    """The part of a marked stretch that stands in one line."""
    first, last = max(span[0] - start, 0), min(span[1] - start, len(line))
    x, width = MARGIN + cells(line[:first]) * CELL - 2, cells(line[first:last]) * CELL + 4
    return f'<rect class="mark" x="{x:.1f}" y="{y - 15}" width="{width:.1f}" height="20" rx="3"/>'


def _in_grid(x: float, y: float, line: str) -> str:
    wide = f' textLength="{cells(line) * CELL:.1f}" lengthAdjust="spacingAndGlyphs"' if line else ""
    return f'<text x="{x}" y="{y}"{wide}>{escape(line)}</text>'


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>'
