"""Pieces of HTML for notebooks, with inline styles, because a notebook has no style sheet.

Every text is escaped. Colours are the report's own; text keeps the notebook's colour on a mark that
lets the ground through, so that it can be read in light and dark.
"""

from collections.abc import Sequence
from html import escape

MARK = "background:rgba(224,138,0,.38);border-radius:2px"
"""Style of a span that was left out."""
_QUIET = "opacity:.75;font-size:90%"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> str:
    """A table; the first column is a name."""
    head = "".join(f"<th style='text-align:left'>{escape(one)}</th>" for one in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def marked(text: str, spans: Sequence[tuple[int, int, str]], read: int | None = None) -> str:
    """A text with marked stretches (start, end, title); text after ``read`` is faded."""
    pieces, end = [], 0
    for start, stop, said in spans:
        pieces.append(escape(text[end:start]))
        pieces.append(
            f"<mark style='color:inherit;{MARK}' "
            f"title='{escape(said)}'>{escape(text[start:stop])}</mark>"
        )
        end = stop
    last = len(text) if read is None else max(end, read)
    pieces.append(escape(text[end:last]))
    if text[last:]:
        pieces.append(
            f"<span style='opacity:.5' title='not read by the model'>{escape(text[last:])}</span>"
        )
    return "".join(pieces)


def side_by_side(parts: Sequence[tuple[str, str]], said: str = "") -> str:
    """Boxes with a heading and HTML each, next to each other, under a line of text."""
    boxes = "".join(
        f"<div style='flex:1 1 18em;white-space:pre-wrap'><b>{escape(name)}</b><br>{html}</div>"
        for name, html in parts
    )
    line = f"<div style='{_QUIET}'>{escape(said)}</div>" if said else ""
    return (
        f"<div>{line}<div style='display:flex;flex-wrap:wrap;gap:1.5em;margin:.4em "
        f"0'>{boxes}</div></div>"
    )
