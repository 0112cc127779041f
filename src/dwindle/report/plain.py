"""Tables as text: Markdown for a page, LaTeX (booktabs) for a paper."""

from collections.abc import Sequence

from dwindle.analysis.table import Cell, Table

Part = tuple[str, list[Table], list[str]]

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


def markdown(parts: Sequence[Part]) -> str:
    """Each part with its heading, tables and sentences."""
    lines: list[str] = []
    for heading, tables, sentences in parts:
        lines += [f"## {_md(heading)}", ""]
        for table in tables:
            lines += _markdown(table)
        lines += [line for sentence in sentences for line in (_md(sentence), "")]
    return "\n".join(lines)


def _markdown(table: Table) -> list[str]:
    names = _columns(table)
    lines = [f"**{_md(table.caption)}**", "", _row(names), _row(["---", *["---:"] * (len(names) - 1)])]
    lines += [_row([name, *(_flat(cell, "{} ({})") for cell in cells)]) for name, cells in table.rows]
    return [*lines, "", *(line for note in table.notes for line in (_md(note), ""))]


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(_md, texts)) + " |"


def _md(text: str) -> str:
    """Text that Markdown leaves as it is, on one line."""
    for character in "\\`*_<>|[]":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def latex(parts: Sequence[Part]) -> str:
    """Each table as a ``table`` with ``booktabs`` rules; sentences as comments."""
    lines: list[str] = []
    for heading, tables, sentences in parts:
        lines += [f"% {' '.join(heading.split())}"]
        for table in tables:
            lines += _latex(table, heading)
        lines += [f"% {' '.join(sentence.split())}" for sentence in sentences]
    return "\n".join(lines) + "\n"


def _latex(table: Table, heading: str) -> list[str]:
    names = _columns(table)
    rows = [" & ".join(map(_tex, [name, *(_flat(c, "{} ({})") for c in cells)])) + r" \\" for name, cells in table.rows]
    return [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{_tex(f'{heading}. {table.caption}.')} {_tex(' '.join(table.notes))}}}",
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


def _flat(cell: Cell, pattern: str) -> str:
    return pattern.format(cell.text, cell.note) if cell.note else cell.text
