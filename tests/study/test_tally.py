"""The statistics: each against a slow twin, a known value or a law."""

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dwindle.metrics.agreement import sign_test, wilson
from dwindle.study import export
from dwindle.study.store import Row
from dwindle.study.tally import Vote, clustered_share, compare, flip_test, tally, warnings
from tests.study.study_kit import ballot

LEADS = st.lists(st.integers(-3, 3), max_size=10)
CHOICES = ("left", "tie", "right")


@given(LEADS)
def test_flip_test_counts_every_way(leads):
    """The slow twin: all 2^n signs, one by one."""
    seen = abs(sum(leads))
    ways = [abs(sum(s * d for s, d in zip(signs, leads, strict=True))) >= seen
            for signs in itertools.product((1, -1), repeat=len(leads))]  # fmt: skip
    assert flip_test(leads) == pytest.approx(sum(ways) / len(ways), rel=1e-12)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 20))
def test_flip_test_of_single_judgements_is_the_sign_test(wins, losses, ties):
    assert flip_test([1] * wins + [-1] * losses + [0] * ties) == pytest.approx(
        sign_test(wins, losses), rel=1e-9
    )


def test_flip_test_agrees_with_random_flips():
    rng = random.Random(5)
    leads = [rng.choice([-3, -1, 1, 1, 2, 3]) for _ in range(40)]
    seen = abs(sum(leads))
    hits = sum(
        abs(sum(d if rng.random() < 0.5 else -d for d in leads)) >= seen for _ in range(20_000)
    )
    assert flip_test(leads) == pytest.approx(hits / 20_000, abs=0.015)


def test_p_is_small_but_not_zero_far_out_and_never_above_one():
    assert 0 < flip_test([3] * 900) < 1e-260
    assert flip_test([]) == flip_test([0, 0]) == 1
    assert export.p_value(flip_test([1] * 5000)) == "< 1e-300"


@pytest.mark.parametrize(("yes", "n"), [(0, 10), (8, 10), (10, 10), (96, 100), (1, 3)])
def test_wilson_is_scipys(yes, n):
    ours = wilson(yes / n, n)
    assert ours == pytest.approx(
        tuple(stats.binomtest(yes, n).proportion_ci(method="wilson")), abs=1e-9
    )


def test_raters_who_say_the_same_are_one_witness():
    """Three copies of each judgement make the interval no narrower, up to the n / (n - 1) of a
    sample's variance."""
    yes = [1] * 40 + [0] * 10
    once, thrice = clustered_share(yes, [1] * 50), clustered_share([3 * y for y in yes], [3] * 50)
    assert (once.share, once.low) == pytest.approx((thrice.share, thrice.low), abs=1e-9)
    assert clustered_share([3] * 50, [3] * 50).low == pytest.approx(wilson(1.0, 50)[0])


def test_the_interval_holds_what_it_promises_for_clustered_judgements():
    """400 studies of 60 items: some items fool all raters. A plain Wilson interval holds in 75 %,
    this one in 94 %."""
    rng = random.Random(2)
    held = plain = 0
    for _ in range(400):
        yes = []
        for _ in range(60):
            p = 0.97 if rng.random() < 0.85 else 0.1
            yes.append(sum(rng.random() < p for _ in range(3)))
        truth = 0.85 * 0.97 + 0.15 * 0.1
        share = clustered_share(yes, [3] * 60)
        held += share.low <= truth <= share.high
        low, high = wilson(share.share, 180)
        plain += low <= truth <= high
    assert held >= 370
    assert plain < held - 20


def ballots(seed: int, items: int = 40, raters: int = 3) -> list[Row]:
    rng = random.Random(seed)

    def row(item: int, rater: int) -> Row:
        given = ballot(
            rng.choice(CHOICES),
            rng.choice(CHOICES),
            rng.choice(["yes", "no"]),
            rng.choice(["yes", "no"]),
        )
        return Row(f"{item}", False, f"r{rater}", rng.choice("ab"), given, 0, 0, 0, True)

    return [row(item, rater) for item in range(items) for rater in range(raters)]


def turned(row: Row) -> Row:
    """The same judgement with the sides exchanged."""
    other = {"left": "right", "right": "left", "tie": "tie"}
    said = row.ballot.answers
    given = ballot(
        other[said["representativeness"]],
        other[said["readability"]],
        said["factual_right"],
        said["factual_left"],
    )
    return replace(row, left="b" if row.left == "a" else "a", ballot=given)


@given(st.integers(0, 1000))
def test_sides_do_not_matter(seed):
    rows = ballots(seed, 6)
    assert tally(("x", "y"), rows) == tally(
        ("x", "y"), [turned(r) if i % 3 else r for i, r in enumerate(rows)]
    )


@given(st.integers(0, 1000))
def test_exchanging_the_systems_exchanges_the_wins(seed):
    rows = ballots(seed, 8)
    one = tally(("x", "y"), rows)
    two = tally(("y", "x"), [replace(r, left="b" if r.left == "a" else "a") for r in rows])
    assert (one.verdicts[0].a, one.verdicts[0].b) == (two.verdicts[0].b, two.verdicts[0].a)
    for c, d in zip(one.comparisons, two.comparisons, strict=True):
        assert (c.wins_a, c.ties, c.items_a, c.items_tied) == (
            d.wins_b,
            d.ties,
            d.items_b,
            d.items_tied,
        )
        assert (c.p_judgements, c.p_items, c.p_clustered) == (
            d.p_judgements,
            d.p_items,
            d.p_clustered,
        )


def test_a_small_study_by_hand():
    """Two items. Item 1: b, b, tie. Item 2: a, b, tie."""
    given = {"1": ("b", "b", "tie"), "2": ("a", "b", "tie")}
    votes = [
        Vote(i, f"r{k}", {"representativeness": w}, {})
        for i, labels in given.items()
        for k, w in enumerate(labels)
    ]
    c = compare("representativeness", votes)
    assert (c.wins_a, c.ties, c.wins_b) == (1, 2, 3)
    assert (c.items_a, c.items_tied, c.items_b) == (0, 1, 1)
    assert c.p_judgements == 2 * (1 + 4) / 16
    assert c.p_items == c.p_clustered == 1
    assert c.agreement == pytest.approx((1 / 3 + 0) / 2)


def test_the_papers_own_shares_do_not_give_its_p_values():
    """35.9, 6.87 and 57.2 % of 1500: 539, 103 and 858 judgements. Over judgements p is 1.3e-17; the
    printed 1e-6 is what 180 against 286 of 500 items would give."""
    labels = ["a"] * 539 + ["tie"] * 103 + ["b"] * 858
    random.Random(1).shuffle(labels)
    votes = [
        Vote(str(i // 3), str(i % 3), {"representativeness": w}, {}) for i, w in enumerate(labels)
    ]
    c = compare("representativeness", votes)
    assert c.p_judgements == pytest.approx(1.3e-17, rel=0.05)
    assert sign_test(180, 286) == pytest.approx(1.04e-6, rel=0.01)


def test_checks_are_not_votes_and_may_leave_raters_out():
    rows = ballots(1)
    good, right = ballot("left", "left", "yes", "no"), ballot("right", "right", "yes", "no")
    seen = [("c", "r0", "a", good), ("d", "r0", "b", good), ("c", "r1", "b", right)]
    checks = [
        Row(pair, True, rater, left, given, 0, 0, 0, True) for pair, rater, left, given in seen
    ]
    counted = tally(("x", "y"), [*rows, *checks])
    assert counted.checks == {"r0": (1, 2), "r1": (1, 1)}
    assert (counted.ballots, counted.left_out) == (120, ())
    strict = tally(("x", "y"), [*rows, *checks], pass_mark=0.8)
    assert (strict.ballots, strict.left_out, strict.raters) == (80, ("r0",), 2)


def test_who_fails_checks_or_answers_in_no_time_is_named():
    rows = [
        replace(row, ballot=replace(row.ballot, seconds=0.5 if row.rater == "r1" else 20.0))
        for row in ballots(1)
    ]
    failed = Row(
        "c", True, "r2", "a", ballot("right", "left", "yes", "no", "", 20.0), 0, 0, 0, True
    )
    passed = replace(failed, rater="r0", ballot=ballot("left", "left", "yes", "no", "", 20.0))
    found = {
        "r1": ["answered in 0.5 seconds an item (median)"],
        "r2": ["passed 0 of 1 attention checks"],
    }
    assert warnings([*rows, failed, passed]) == found
    assert tally(("x", "y"), [*rows, failed, passed]).warnings == tuple(
        f"{r} {what}" for r, (what,) in found.items()
    )


def test_identical_items_are_ties_that_change_no_test():
    plain, more = (tally(("x", "y"), ballots(2), identical=n, raters=3) for n in (0, 10))
    for c, d in zip(plain.comparisons, more.comparisons, strict=True):
        assert d == replace(c, ties=c.ties + 30, items_tied=c.items_tied + 10)
    assert more.verdicts == plain.verdicts


def test_late_ballots_are_named_and_not_counted():
    rows = ballots(1)
    counted = tally(("x", "y"), [replace(rows[0], counted=False), *rows[1:]])
    assert (counted.ballots, counted.late) == (119, 1)
    with pytest.raises(ValueError, match="no ballot counts"):
        tally(("x", "y"), [replace(r, counted=False) for r in rows])


def test_table_7_has_the_papers_rows_and_escapes_names():
    text = export.table7(tally(("bart_sum & co", "100%"), ballots(3)))
    lines = text.splitlines()
    assert (
        lines[2] == r"\textbf{Model} & \textbf{Repr. Win} & \textbf{Read. Win} & \textbf{Fac.} \\"
    )
    assert [line.split(" & ")[0] for line in lines if " & " in line][2:] == [
        r"100\%", "Tie", "Human Agr.", r"Krippendorff's $\alpha$", "$p$-value (sign test)",
        "$p$-value (sign test, items)", "$p$-value (permutation, items)",
    ]  # fmt: skip
    assert r"bart\_sum \& co & " in text
    assert all(line.count(" & ") == 3 for line in lines[5:7])
