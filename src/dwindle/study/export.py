"""Exports of a study: ballots as CSV and JSONL, who has done how much, and the paper's Table 7.

Knows no page.
"""

import csv
import io
import json
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from dwindle.study.questions import CHOICES, SUMMARY, VERDICTS, Questions
from dwindle.study.store import Row, Store
from dwindle.study.tally import Tally, passed_checks, warnings, winner

_FIRST = ("item", "check", "rater", "left", "right")
_LAST = ("comment", "seconds", "first", "last", "changes", "counted")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def record(row: Row, systems: tuple[str, str], asked: Questions) -> dict[str, Any]:
    """A ballot with the names of the systems; in a check they are ``real`` and ``shuffled``."""
    a, b = ("real", "shuffled") if row.check else systems
    names = {"a": a, "tie": "tie", "b": b}
    left, right = (a, b) if row.left == "a" else (b, a)
    return {
        "item": row.pair, "check": row.check, "rater": row.rater, "left": left, "right": right,
        **{name: row.ballot.answers[name] for name in asked.answers},
        **{f"{q.name}_winner": names[winner(row, q.name)] for q in asked.compared},
        "comment": row.ballot.comment, "seconds": row.ballot.seconds, "first": _time(row.first),
        "last": _time(row.last), "changes": row.changes, "counted": row.counted,
    }  # fmt: skip


def as_jsonl(rows: Iterable[Row], systems: tuple[str, str], asked: Questions) -> Iterator[str]:
    for row in rows:
        yield json.dumps(record(row, systems, asked), ensure_ascii=False) + "\n"


def as_csv(rows: Iterable[Row], systems: tuple[str, str], asked: Questions) -> Iterator[str]:
    """A text that a spreadsheet would run as a formula gets an apostrophe before it; JSONL has
    every text as it is."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(
        [*_FIRST, *asked.answers, *(f"{q.name}_winner" for q in asked.compared), *_LAST]
    )
    for row in rows:
        writer.writerow([_cell(value) for value in record(row, systems, asked).values()])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def people(store: Store, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Progress by rater: ballots, counts of answers, time, checks, completion code, warnings."""
    checks, warned = passed_checks(rows), warnings(rows)
    return [
        {
            **_person([row for row in rows if row.rater == name], store.questions),
            "name": name,
            "checks": "{} of {}".format(*checks[name]) if name in checks else "–",
            "code": store.code(number),
            "warnings": warned.get(name, []),
        }
        for number, name in store.raters_named()
    ]


def _person(rows: Sequence[Row], asked: Questions) -> dict[str, Any]:
    ballots = [row.ballot for row in rows]
    seconds = [b.seconds for b in ballots if b.seconds is not None]
    said = {q.name: _times((b.answers[q.name] for b in ballots), CHOICES) for q in asked.compared}
    for q in asked.each:
        said[q.name] = _times(
            (b.answers[f"{q.name}_{side}"] for b in ballots for side in ("left", "right")), VERDICTS
        )
    return {
        "ballots": len(rows),
        "answers": said,
        "seconds": round(statistics.median(seconds), 1) if seconds else "–",
        "late": sum(not row.counted for row in rows),
    }


def _times(answers: Iterable[str], labels: Sequence[str]) -> list[int]:
    counts = Counter(answers)
    return [counts[label] for label in labels]


def table7(tally: Tally, asked: Questions = SUMMARY) -> str:
    """The paper's Table 7 in LaTeX (booktabs), with the two tests over items beneath its own."""
    both, each = tally.comparisons, tally.verdicts
    dashes = ["--"] * len(each)
    a, b = (_latex(name) for name in tally.systems)
    rows = [
        [
            a,
            *(_percent(c.wins_a / c.judgements) for c in both),
            *(_percent(v.a.share) for v in each),
        ],
        [
            b,
            *(_percent(c.wins_b / c.judgements) for c in both),
            *(_percent(v.b.share) for v in each),
        ],
        ["Tie", *(_percent(c.ties / c.judgements) for c in both), *dashes],
        [],
        ["Human Agr.", *(_percent(q.agreement) for q in tally.every)],
        ["Krippendorff's $\\alpha$", *(_decimal(q.alpha) for q in tally.every)],
        [],
        ["$p$-value (sign test)", *(p_value(c.p_judgements) for c in both), *dashes],
        ["$p$-value (sign test, items)", *(p_value(c.p_items) for c in both), *dashes],
        ["$p$-value (permutation, items)", *(p_value(q.p_clustered) for q in tally.every)],
    ]
    titles = [
        "Model",
        *(f"{_latex(q.short)} Win" for q in asked.compared),
        *(_latex(q.short) for q in asked.each),
    ]
    head = " & ".join(f"\\textbf{{{title}}}" for title in titles) + " \\\\"
    body = [" & ".join(row) + " \\\\" if row else "\\midrule" for row in rows]
    begin, end = f"\\begin{{tabular}}{{l{'c' * len(tally.every)}}}", "\\end{tabular}"
    return "\n".join([begin, "\\toprule", head, "\\midrule", *body, "\\bottomrule", end]) + "\n"


def p_value(p: float) -> str:
    """A p-value with two significant digits; never 0, which no test can show."""
    return f"{p:.2g}" if p >= 1e-300 else "< 1e-300"


def _percent(share: float | None) -> str:
    return "--" if share is None else f"{100 * share:.1f}\\%"


def _decimal(value: float | None) -> str:
    return "--" if value is None else f"{value:.3f}"


def _latex(text: str) -> str:
    special = {c: f"\\{c}" for c in "&%$#_{}"} | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
    }
    return "".join(special.get(c, c) for c in text).replace("^", r"\textasciicircum{}")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
