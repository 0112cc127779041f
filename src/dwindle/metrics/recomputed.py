"""The paper's printed figures, recomputed from others that it prints. Needs no data, no model.

Each finding stands next to the place it was printed, what is printed, what follows from the paper's
own numbers, and how. Nothing here is a measurement of ours.
"""

import math
from dataclasses import dataclass

from dwindle.metrics import paper
from dwindle.metrics.agreement import sign_test

# Section 4.1: seconds a batch without and with diminishing attention, and the increase as printed.
_SECONDS = (3.81, 3.97)
# Table 7: percentages of 500 items with 3 raters each (DyDim wins, ties), and the printed p-value.
_HUMAN = {"representativeness": (57.2, 6.87, "1e-6"), "readability": (45.1, 12.4, "0.0014")}
_ITEMS, _RATERS = 500, 3
# The bases a of the paper's g = log_a(x + 1).
_BASES = {"e": math.e, "1.9": 1.9, "1.95": 1.95, "2.2": 2.2}


@dataclass(frozen=True)
class Recomputed:
    """One printed figure and what it should have been."""

    about: str
    where: str
    printed: str
    recomputed: str
    agrees: bool
    how: str


def recomputed() -> list[Recomputed]:
    """Every figure that can be recomputed from the paper alone."""
    return [_training_time(), *_sign_tests(), *_crossings(), *_gains()]


def _training_time() -> Recomputed:
    before, after = _SECONDS
    return Recomputed(
        "extra training time per batch",
        "section 4.1",
        "0.42 %",
        f"{100 * (after - before) / before:.1f} %",
        False,
        f"({after} - {before}) / {before}",
    )


def _sign_tests() -> list[Recomputed]:
    """Printed p-values against exact two-sided sign tests, per judgement and per item."""
    findings = []
    for about, (ours, equal, printed) in _HUMAN.items():
        for n, unit in ((_ITEMS * _RATERS, "judgements"), (_ITEMS, "items")):
            wins, ties = (math.floor(percent * n / 100 + 0.5) for percent in (ours, equal))
            losses = n - wins - ties
            p = sign_test(wins, losses)
            findings.append(
                Recomputed(
                    f"sign test of {about}, {n} {unit}",
                    "Table 7",
                    printed,
                    f"{p:.2g}",
                    math.isclose(p, float(printed), rel_tol=0.05),
                    f"{wins} wins, {losses} losses, without {ties} ties",
                )
            )
    return findings


def _crossings() -> list[Recomputed]:
    """The x from which sqrt(x + 1) has the larger slope than log_a(x + 1), that is, from which 1 /
    (2 sqrt(1 + x)) > 1 / ((1 + x) ln a)."""
    findings = []
    for name, base in _BASES.items():
        printed, true = 3 * math.log(base), crossing(base)
        findings.append(
            Recomputed(
                f"sqrt grows faster than log_{name} from",
                "A.1, footnote",
                f"x > {printed:.1f}",
                f"x > {true:.1f}",
                math.isclose(printed, true, rel_tol=0.05),
                "4 / (ln a)^2 - 1, not 3 log a",
            )
        )
    return findings


def crossing(base: float) -> float:
    """The x above which sqrt(x + 1) has a larger slope than log_base(x + 1)."""
    return 4 / math.log(base) ** 2 - 1


def _gains() -> list[Recomputed]:
    """The gain over PG + Cov as Table 1 shows it, where systems decode differently, and with their
    decoding alike (Table 9)."""
    findings = []
    for system in ("Dim", "DyDim"):
        shown, alike = (_gain(paper.table(number), f"PG + {system}") for number in ("1", "9"))
        findings.append(
            Recomputed(
                f"ROUGE-1/2/L gain of PG + {system}",
                "Table 1 and Table 9",
                "/".join(f"{gain:+.2f}" for gain in shown),
                "/".join(f"{gain:+.2f}" for gain in alike),
                False,
                "400 tokens, no length norm, no blocking; beam not stated",
            )
        )
    return findings


def _gain(table: paper.PaperTable, system: str) -> list[float]:
    """ROUGE-1, -2 and -L of a system minus those of PG + Cov."""
    both = zip(table.row(system).values[:3], table.row("PG + Cov.").values[:3], strict=True)
    return [ours - base for ours, base in both if ours is not None and base is not None]
