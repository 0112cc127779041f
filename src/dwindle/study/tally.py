"""From ballots to p-values. Pure: votes in, numbers out, no seed needed, for every test here is exact.

Three raters who judge one item are not three independent witnesses, so each comparison is tested three ways: over
judgements (which takes them as independent), over items by majority, and over items by flipping. Formulas:
``docs/STUDY.md``. Knows nothing of databases or pages.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dwindle.metrics.agreement import krippendorff_alpha, pairwise_agreement, sign_test
from dwindle.study.questions import COMPARED, FACTUALITY
from dwindle.study.store import Choice, Row

Winner = Literal["a", "tie", "b"]
Z = 1.959963984540054  # the normal quantile of a 95 % interval


@dataclass(frozen=True)
class Vote:
    """A ballot in terms of the systems instead of the sides."""

    item: str
    rater: str
    representativeness: Winner
    readability: Winner
    factual_a: bool
    factual_b: bool


@dataclass(frozen=True)
class Comparison:
    """One question of the kind left / tie / right. Counts of judgements, then of items by majority."""

    question: str
    wins_a: int
    ties: int
    wins_b: int
    items_a: int
    items_tied: int
    items_b: int
    p_judgements: float
    p_items: float
    p_clustered: float
    agreement: float | None
    alpha: float | None


@dataclass(frozen=True)
class Share:
    """How many of the judgements on one system say "factually correct", as a share with its 95 % interval."""

    yes: int
    judgements: int
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Tally:
    systems: tuple[str, str]
    ballots: int
    items: int
    raters: int
    comparisons: tuple[Comparison, ...]
    factual_a: Share
    factual_b: Share
    factual_p_clustered: float
    factual_agreement: float | None
    factual_alpha: float | None
    checks: Mapping[str, tuple[int, int]]
    left_out: tuple[str, ...]
    late: int


def tally(systems: tuple[str, str], rows: Sequence[Row], pass_mark: float = 0.0) -> Tally:
    """Every statistic of a study. Raters who passed less than ``pass_mark`` of their checks are left out."""
    counted = [row for row in rows if row.counted]
    checks = passed_checks(counted)
    out = {rater for rater, (passed, seen) in checks.items() if passed < pass_mark * seen}
    votes = [vote(row) for row in counted if not row.check and row.rater not in out]
    if not votes:
        raise ValueError("no ballot counts so far: tally the study after its raters have begun")
    items = by_item(votes)
    factual = [_factual(votes, system) for system in ("a", "b")]
    flips = [sum(v.factual_b - v.factual_a for v in of) for of in items.values()]
    units = [[getattr(v, f"factual_{system}") for v in of] for of in items.values() for system in "ab"]
    return Tally(
        systems=systems,
        ballots=len(votes),
        items=len(items),
        raters=len({v.rater for v in votes}),
        comparisons=tuple(compare(question.name, votes) for question in COMPARED),
        factual_a=factual[0],
        factual_b=factual[1],
        factual_p_clustered=flip_test(flips),
        factual_agreement=agreement(units),
        factual_alpha=alpha(units),
        checks=checks,
        left_out=tuple(sorted(out)),
        late=len(rows) - len(counted),
    )


def vote(row: Row) -> Vote:
    """Undo the draw of the sides."""
    factual = {"left": row.ballot.factual_left == "yes", "right": row.ballot.factual_right == "yes"}
    a_is = "left" if row.left == "a" else "right"
    return Vote(
        item=row.pair,
        rater=row.rater,
        representativeness=winner(row, row.ballot.representativeness),
        readability=winner(row, row.ballot.readability),
        factual_a=factual[a_is],
        factual_b=factual["right" if a_is == "left" else "left"],
    )


def winner(row: Row, choice: Choice) -> Winner:
    if choice == "tie":
        return "tie"
    return "a" if (choice == "left") == (row.left == "a") else "b"


def passed_checks(rows: Iterable[Row]) -> dict[str, tuple[int, int]]:
    """For each rater, checks passed and checks seen. Passed: the real summary preferred in both questions."""
    seen: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        if row.check:
            chosen = (row.ballot.representativeness, row.ballot.readability)
            seen[row.rater].append(all(winner(row, choice) == "a" for choice in chosen))
    return {rater: (sum(passed), len(passed)) for rater, passed in sorted(seen.items())}


def by_item(votes: Iterable[Vote]) -> dict[str, list[Vote]]:
    items: dict[str, list[Vote]] = defaultdict(list)
    for one in votes:
        items[one.item].append(one)
    return items


def compare(question: str, votes: Sequence[Vote]) -> Comparison:
    """Wins, ties, the three tests, and how far raters agree, for one question."""
    units: list[list[Winner]] = [[getattr(v, question) for v in of] for of in by_item(votes).values()]
    every = [label for unit in units for label in unit]
    wins_a, wins_b = every.count("a"), every.count("b")
    lead = [unit.count("b") - unit.count("a") for unit in units]
    items_a, items_b = sum(d < 0 for d in lead), sum(d > 0 for d in lead)
    return Comparison(
        question=question,
        wins_a=wins_a,
        ties=every.count("tie"),
        wins_b=wins_b,
        items_a=items_a,
        items_tied=len(units) - items_a - items_b,
        items_b=items_b,
        p_judgements=sign_test(wins_a, wins_b),
        p_items=sign_test(items_a, items_b),
        p_clustered=flip_test(lead),
        agreement=agreement(units),
        alpha=alpha(units),
    )


def flip_test(leads: Sequence[int]) -> float:
    """Two-sided p-value of the sum of ``leads`` when the sign of each is a fair coin: the permutation test in which
    an item's two systems change places together, over all 2^n ways at once.

    p = P(|sum s_i d_i| >= |sum d_i|). The distribution grows by one item at a time: half of it moves up by |d_i|, half
    down. Only sums of positive numbers are formed, so nothing cancels.
    """
    sizes = [abs(d) for d in leads if d]
    reach = sum(sizes)
    chance = np.zeros(2 * reach + 1)
    chance[reach] = 1.0
    for size in sizes:
        half = chance / 2
        chance[:] = 0.0
        chance[size:] += half[:-size]
        chance[:-size] += half[size:]
    distance = np.abs(np.arange(-reach, reach + 1))
    return min(1.0, math.fsum(chance[distance >= abs(sum(leads))]))


def agreement(units: Sequence[Sequence[object]]) -> float | None:
    """Mean pairwise agreement; none while no item has two raters."""
    return pairwise_agreement(units) if any(len(unit) > 1 for unit in units) else None


def alpha(units: Sequence[Sequence[object]]) -> float | None:
    """Krippendorff's alpha; none while it is not defined."""
    labels = {label for unit in units if len(unit) > 1 for label in unit}
    return krippendorff_alpha(units) if len(labels) > 1 else None


def _factual(votes: Sequence[Vote], system: str) -> Share:
    counts = [[getattr(v, f"{FACTUALITY.name}_{system}") for v in of] for of in by_item(votes).values()]
    return clustered_share([sum(of) for of in counts], [len(of) for of in counts])


def clustered_share(yes: Sequence[int], judged: Sequence[int]) -> Share:
    """A share and its 95 % Wilson interval for judgements in clusters: item i has ``yes[i]`` of ``judged[i]``.

    The interval uses n / d judgements, with d the design effect: the variance of the share with items as the units
    that were sampled, over the variance that independent judgements would have, and at least 1. Where all judgements
    are alike, d cannot be seen, and each item counts as one judgement.
    """
    n, items = sum(judged), len(judged)
    share = sum(yes) / n
    plain = share * (1 - share) / n
    if plain == 0 or items == 1:
        size = float(items)
    else:
        spread = math.fsum((y - share * m) ** 2 for y, m in zip(yes, judged, strict=True))
        size = n / max(1.0, items / (items - 1) * spread / n**2 / plain)
    low, high = wilson(share, size)
    return Share(sum(yes), n, share, low, high)


def wilson(share: float, n: float) -> tuple[float, float]:
    """The 95 % score interval of a share seen in ``n`` judgements."""
    middle = share + Z * Z / (2 * n)
    half = Z * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    scale = 1 + Z * Z / n
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
