"""What leaves a study: ballots as CSV and JSONL, who has done how much, and the paper's Table 7. Knows no page."""

import csv
import io
import json
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from dwindle.study.store import Row, Store
from dwindle.study.tally import Tally, passed_checks, winner

FIELDS = (
    "item", "check", "rater", "left", "right", "representativeness", "readability", "factual_left", "factual_right",
    "representativeness_winner", "readability_winner", "comment", "seconds", "first", "last", "changes", "counted",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def record(row: Row, systems: tuple[str, str]) -> dict[str, Any]:
    """A ballot with the names of the systems; in a check they are ``real`` and ``shuffled``."""
    a, b = ("real", "shuffled") if row.check else systems
    names = {"a": a, "tie": "tie", "b": b}
    ballot = row.ballot
    left, right = (a, b) if row.left == "a" else (b, a)
    values = (
        row.pair, row.check, row.rater, left, right, ballot.representativeness, ballot.readability,
        ballot.factual_left, ballot.factual_right, names[winner(row, ballot.representativeness)],
        names[winner(row, ballot.readability)], ballot.comment, ballot.seconds, _time(row.first), _time(row.last),
        row.changes, row.counted,
    )  # fmt: skip
    return dict(zip(FIELDS, values, strict=True))


def as_jsonl(rows: Iterable[Row], systems: tuple[str, str]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(record(row, systems), ensure_ascii=False) + "\n"


def as_csv(rows: Iterable[Row], systems: tuple[str, str]) -> Iterator[str]:
    """A text that a spreadsheet would run as a formula gets an apostrophe before it; JSONL has every text as it is."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(FIELDS)
    for row in rows:
        writer.writerow([_cell(value) for value in record(row, systems).values()])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def people(store: Store, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Progress by rater: ballots, what was answered how often, time, checks."""
    checks = passed_checks(rows)
    return [_person(name, [r for r in rows if r.rater == name], checks) for name in store.raters_named()]


def _person(name: str, rows: Sequence[Row], checks: dict[str, tuple[int, int]]) -> dict[str, Any]:
    ballots = [row.ballot for row in rows]
    seconds = [b.seconds for b in ballots if b.seconds is not None]
    passed, seen = checks.get(name, (0, 0))
    verdicts = [verdict for b in ballots for verdict in (b.factual_left, b.factual_right)]
    return {
        "name": name,
        "ballots": len(rows),
        "representativeness": _times((b.representativeness for b in ballots), ("left", "tie", "right")),
        "readability": _times((b.readability for b in ballots), ("left", "tie", "right")),
        "factual": _times(verdicts, ("yes", "no")),
        "seconds": round(statistics.median(seconds), 1) if seconds else "–",
        "checks": f"{passed} of {seen}" if seen else "–",
        "late": sum(not row.counted for row in rows),
    }


def _times(answers: Iterable[str], labels: Sequence[str]) -> list[int]:
    counts = Counter(answers)
    return [counts[label] for label in labels]


def table7(tally: Tally) -> str:
    """The layout of the paper's Table 7 in LaTeX (booktabs), with the two tests over items beneath its own."""
    repr_, read = tally.comparisons
    a, b = (_latex(name) for name in tally.systems)
    n = tally.ballots
    rows = [
        [a, _percent(repr_.wins_a / n), _percent(read.wins_a / n), _percent(tally.factual_a.share)],
        [b, _percent(repr_.wins_b / n), _percent(read.wins_b / n), _percent(tally.factual_b.share)],
        ["Tie", _percent(repr_.ties / n), _percent(read.ties / n), "--"],
        [],
        ["Human Agr.", *map(_percent, (repr_.agreement, read.agreement, tally.factual_agreement))],
        ["Krippendorff's $\\alpha$", *map(_decimal, (repr_.alpha, read.alpha, tally.factual_alpha))],
        [],
        ["$p$-value (sign test)", p_value(repr_.p_judgements), p_value(read.p_judgements), "--"],
        ["$p$-value (sign test, items)", p_value(repr_.p_items), p_value(read.p_items), "--"],
        [
            "$p$-value (permutation, items)",
            *map(p_value, (repr_.p_clustered, read.p_clustered, tally.factual_p_clustered)),
        ],
    ]
    head = "\\textbf{Model} & \\textbf{Repr. Win} & \\textbf{Read. Win} & \\textbf{Fac.} \\\\"
    body = [" & ".join(row) + " \\\\" if row else "\\midrule" for row in rows]
    begin, end = "\\begin{tabular}{lccc}", "\\end{tabular}"
    return "\n".join([begin, "\\toprule", head, "\\midrule", *body, "\\bottomrule", end]) + "\n"


def p_value(p: float) -> str:
    """Two digits that matter; never 0, which no test can show."""
    return f"{p:.2g}" if p >= 1e-300 else "< 1e-300"


def _percent(share: float | None) -> str:
    return "--" if share is None else f"{100 * share:.1f}\\%"


def _decimal(value: float | None) -> str:
    return "--" if value is None else f"{value:.3f}"


def _latex(text: str) -> str:
    special = {c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
    return "".join(special.get(c, c) for c in text).replace("^", r"\textasciicircum{}")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
