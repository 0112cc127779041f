"""From ballots to p-values. Pure: votes in, numbers out, no seed, for every test is exact.

Three raters who judge one item are not three independent witnesses, so each comparison is tested
three ways: over judgements (which takes them as independent), over items by majority, and over
items by flipping. Formulas: ``docs/STUDY.md``. Knows nothing of databases or pages.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dwindle.metrics.agreement import krippendorff_alpha, pairwise_agreement, sign_test, wilson
from dwindle.study.questions import SUMMARY, VERDICTS, Questions
from dwindle.study.store import Row

Winner = Literal["a", "tie", "b"]
FEWEST_PASSED = 0.8  # of a rater's checks, and
# seconds an item, in the middle: whoever is below is named in a warning, and counted all the same
FASTEST = 3.0


@dataclass(frozen=True)
class Vote:
    """A ballot in terms of the systems instead of the sides. By question: who is better; whether A
    and B got a yes."""

    item: str
    rater: str
    preferred: Mapping[str, Winner]
    said_yes: Mapping[str, tuple[bool, bool]]


@dataclass(frozen=True)
class Comparison:
    """One question of the kind left / tie / right. Counts of judgements, then of majorities."""

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

    @property
    def judgements(self) -> int:
        return self.wins_a + self.ties + self.wins_b


@dataclass(frozen=True)
class Share:
    """The share of judgements on one system that say "yes", with its 95 % interval."""

    yes: int
    judgements: int
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdicts:
    """One question of the kind yes / no, asked of each text."""

    question: str
    a: Share
    b: Share
    p_clustered: float
    agreement: float | None
    alpha: float | None


@dataclass(frozen=True)
class Tally:
    systems: tuple[str, str]
    ballots: int
    items: int
    raters: int
    identical: int
    comparisons: tuple[Comparison, ...]
    verdicts: tuple[Verdicts, ...]
    checks: Mapping[str, tuple[int, int]]
    warnings: tuple[str, ...]
    left_out: tuple[str, ...]
    late: int

    @property
    def every(self) -> tuple[Comparison | Verdicts, ...]:
        return (*self.comparisons, *self.verdicts)


def tally(
    systems: tuple[str, str],
    rows: Sequence[Row],
    pass_mark: float = 0.0,
    asked: Questions = SUMMARY,
    identical: int = 0,
    raters: int = 0,
) -> Tally:
    """Every statistic of a study, without raters who passed under ``pass_mark`` of their checks.

    ``identical`` items that nobody was asked about are ties by ``raters`` raters each.
    """
    counted = [row for row in rows if row.counted]
    checks = passed_checks(counted)
    out = {rater for rater, (passed, seen) in checks.items() if passed < pass_mark * seen}
    votes = [vote(row, asked) for row in counted if not row.check and row.rater not in out]
    if not votes:
        raise ValueError("no ballot counts so far: tally the study after its raters have begun")
    return Tally(
        systems=systems,
        ballots=len(votes),
        items=len(by_item(votes)),
        raters=len({v.rater for v in votes}),
        identical=identical,
        comparisons=tuple(
            compare(question.name, votes, identical, raters) for question in asked.compared
        ),
        verdicts=tuple(verdicts(question.name, votes) for question in asked.each),
        checks=checks,
        warnings=tuple(
            f"{rater} {what}" for rater, all in warnings(counted).items() for what in all
        ),
        left_out=tuple(sorted(out)),
        late=len(rows) - len(counted),
    )


def vote(row: Row, asked: Questions = SUMMARY) -> Vote:
    """A ballot in terms of the systems, whichever side they were shown on."""
    sides = ("left", "right") if row.left == "a" else ("right", "left")
    answers = row.ballot.answers
    yes = {
        q.name: (answers[f"{q.name}_{sides[0]}"] == "yes", answers[f"{q.name}_{sides[1]}"] == "yes")
        for q in asked.each
    }
    return Vote(row.pair, row.rater, {q.name: winner(row, q.name) for q in asked.compared}, yes)


def winner(row: Row, question: str) -> Winner:
    choice = row.ballot.answers[question]
    if choice == "tie":
        return "tie"
    return "a" if (choice == "left") == (row.left == "a") else "b"


def passed_checks(rows: Iterable[Row]) -> dict[str, tuple[int, int]]:
    """For each rater, checks passed and seen. Passed: the real text won every comparison."""
    seen: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        if row.check:
            compared = [
                name for name, answer in row.ballot.answers.items() if answer not in VERDICTS
            ]
            seen[row.rater].append(all(winner(row, name) == "a" for name in compared))
    return {rater: (sum(passed), len(passed)) for rater, passed in sorted(seen.items())}


def warnings(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Warnings for the owner, by rater: failed checks, and answers faster than anybody reads."""
    found: dict[str, list[str]] = defaultdict(list)
    for rater, (passed, seen) in passed_checks(rows).items():
        if passed < FEWEST_PASSED * seen:
            found[rater].append(f"passed {passed} of {seen} attention checks")
    seconds: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.ballot.seconds is not None:
            seconds[row.rater].append(row.ballot.seconds)
    for rater, times in sorted(seconds.items()):
        if (middle := statistics.median(times)) < FASTEST:
            found[rater].append(f"answered in {middle:.1f} seconds an item (median)")
    return dict(sorted(found.items()))


def by_item(votes: Iterable[Vote]) -> dict[str, list[Vote]]:
    items: dict[str, list[Vote]] = defaultdict(list)
    for one in votes:
        items[one.item].append(one)
    return items


def compare(
    question: str, votes: Sequence[Vote], identical: int = 0, raters: int = 0
) -> Comparison:
    """Wins, ties, the three tests, and how far raters agree, for one question.

    Identical items are ties that nobody gave: they are in the counts, change no test and say
    nothing of agreement.
    """
    units: list[list[Winner]] = [
        [v.preferred[question] for v in of] for of in by_item(votes).values()
    ]
    every = [label for unit in units for label in unit]
    wins_a, wins_b = every.count("a"), every.count("b")
    lead = [unit.count("b") - unit.count("a") for unit in units]
    items_a, items_b = sum(d < 0 for d in lead), sum(d > 0 for d in lead)
    return Comparison(
        question=question,
        wins_a=wins_a,
        ties=every.count("tie") + identical * raters,
        wins_b=wins_b,
        items_a=items_a,
        items_tied=len(units) - items_a - items_b + identical,
        items_b=items_b,
        p_judgements=sign_test(wins_a, wins_b),
        p_items=sign_test(items_a, items_b),
        p_clustered=flip_test(lead),
        agreement=agreement(units),
        alpha=alpha(units),
    )


def verdicts(question: str, votes: Sequence[Vote]) -> Verdicts:
    """The share of "yes" of each system, the test of their difference, agreement; one question."""
    items = [[v.said_yes[question] for v in of] for of in by_item(votes).values()]
    a, b = ([[yes[system] for yes in of] for of in items] for system in (0, 1))
    return Verdicts(
        question=question,
        a=clustered_share([sum(of) for of in a], [len(of) for of in a]),
        b=clustered_share([sum(of) for of in b], [len(of) for of in b]),
        p_clustered=flip_test([sum(two) - sum(one) for one, two in zip(a, b, strict=True)]),
        agreement=agreement([*a, *b]),
        alpha=alpha([*a, *b]),
    )


def flip_test(leads: Sequence[int]) -> float:
    """Two-sided p-value of the sum of ``leads`` when the sign of each is a fair coin: the
    permutation test in which an item's two systems change places together, over all 2^n ways at
    once.

    p = P(|sum s_i d_i| >= |sum d_i|). The distribution grows by one item at a time: half of it
    moves up by |d_i|, half down. Only sums of positive numbers are formed, so nothing cancels.
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


def clustered_share(yes: Sequence[int], judged: Sequence[int]) -> Share:
    """A share and its 95 % Wilson interval for clusters: item i has ``yes[i]`` of ``judged[i]``.

    The interval uses n / d judgements, with d the design effect: the variance of the share with
    items as the units that were sampled, over the variance that independent judgements would have,
    and at least 1. Where all judgements are alike, d cannot be seen, and each item counts as one
    judgement.
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
