"""Tables as text: Markdown for a page, LaTeX (booktabs) for a paper."""

import re
from collections.abc import Sequence

from dwindle.metrics.table import Cell, Table

Block = tuple[str, list[Table], list[str]]
"""A heading, tables, and sentences on what is missing."""

_MARKED = (
    "Clearly better in bold, clearly worse in italics: zero lies outside the interval, and p is "
    "below 0.05."
)

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{MINUS SIGN}": "$-$",
    "→": r"$\to$",
    "–": "--",
    "\n": " ",
}


def slug(name: str) -> str:
    """A name in a form that can be part of a file name."""
    return re.sub(r"\W+", "-", name).strip("-")


def markdown(blocks: Sequence[Block]) -> str:
    """Each part with its heading, tables and sentences."""
    lines: list[str] = []
    for heading, tables, sentences in blocks:
        lines += [f"## {_md(heading)}", ""]
        for table in tables:
            lines += markdown_lines(table)
        lines += [line for sentence in sentences for line in (_md(sentence), "")]
    return "\n".join(lines)


def markdown_lines(table: Table) -> list[str]:
    """One table with its caption, if it has one, and its notes."""
    names = _columns(table)
    lines = [
        *([f"**{_md(table.caption)}**", ""] if table.caption else []),
        _row([_md(name) for name in names]),
        _row(["---", *["---:"] * (len(names) - 1)]),
    ]
    lines += [_row([_md(name), *map(_md_cell, cells)]) for name, cells in table.rows]
    return [*lines, "", *(line for note in _notes(table) for line in (_md(note), ""))]


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _md_cell(cell: Cell) -> str:
    mark = {"better": "**", "best": "**", "worse": "*"}.get(cell.tone, "")
    return _noted(f"{mark}{_md(cell.text)}{mark}", _md(cell.note))


def _md(text: str) -> str:
    """Text on one line, escaped for Markdown."""
    for character in "\\`*_<>|[]":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def latex(blocks: Sequence[Block]) -> str:
    """Each table as a ``table`` with ``booktabs`` rules; sentences as comments."""
    lines: list[str] = []
    for heading, tables, sentences in blocks:
        lines += [f"% {' '.join(heading.split())}"]
        for table in tables:
            lines += _latex(table, heading)
        lines += [f"% {' '.join(sentence.split())}" for sentence in sentences]
    return "\n".join(lines) + "\n"


def _latex(table: Table, heading: str) -> list[str]:
    names = _columns(table)
    rows = [" & ".join([_tex(name), *map(_tex_cell, cells)]) + r" \\" for name, cells in table.rows]
    return [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{_tex(' '.join([_captioned(heading, table.caption), *_notes(table)]))}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(names) - 1)}}}",
        r"\toprule",
        " & ".join(map(_tex, names)) + r" \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]


def _captioned(heading: str, caption: str) -> str:
    """Section and caption in one sentence; a caption that equals the section is not repeated."""
    section = heading.rpartition(": ")[2]
    if caption.startswith(section):
        return f"{heading}{caption.removeprefix(section)}."
    return f"{heading}. {caption}."


def _tex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _columns(table: Table) -> list[str]:
    """Column names, with the heading over them put in front."""
    over = [name for name, count in table.over for _ in range(count)]
    over += [""] * (len(table.columns) - 1 - len(over))
    both = [
        f"{head} {name}" if head and name in ("paper", "ours") else name
        for head, name in zip(over, table.columns[1:], strict=True)
    ]
    return [table.columns[0], *both]


def _tex_cell(cell: Cell) -> str:
    mark = {"better": r"\textbf{%s}", "worse": r"\emph{%s}"}.get(cell.tone, "%s")
    return _noted(mark % _tex(cell.text), _tex(cell.note))


def _noted(text: str, note: str) -> str:
    return f"{text} ({note})" if note else text


def _notes(table: Table) -> list[str]:
    return [*table.notes, *([_MARKED] if table.marked else [])]
