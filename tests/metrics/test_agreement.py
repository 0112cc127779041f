"""Agreement statistics against other sources, and the audit of the paper."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from dwindle.metrics.agreement import krippendorff_alpha, pairwise_agreement, sign_test
from dwindle.metrics.recomputed import crossing, recomputed


@given(st.integers(0, 60), st.integers(0, 60))
def test_sign_test_equals_scipy(wins, losses):
    expected = binomtest(wins, wins + losses).pvalue if wins + losses else 1
    assert sign_test(wins, losses) == pytest.approx(expected, rel=1e-9)
    assert sign_test(wins, losses) == sign_test(losses, wins)


def test_sign_test_of_large_counts_is_exact():
    assert sign_test(1500, 0) == 2.0**-1499 or sign_test(1500, 0) == 0
    assert sign_test(5, 5) == 1
    with pytest.raises(ValueError, match="cannot be negative"):
        sign_test(-1, 3)


def test_alpha_of_krippendorffs_own_example():
    """Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), part C: four observers,
    twelve units, missing data; nominal alpha 0.743."""
    table = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    ]
    units = [[row[u] for row in table if row[u] is not None] for u in range(12)]
    assert krippendorff_alpha(units) == pytest.approx(0.743, abs=5e-4)


def test_agreement_by_hand():
    assert pairwise_agreement(["aab", "aa", "a"]) == pytest.approx((1 / 3 + 1) / 2)
    assert krippendorff_alpha(["aa", "bb"]) == 1
    for function in (pairwise_agreement, krippendorff_alpha):
        with pytest.raises(ValueError, match="at least two raters"):
            function(["a", ""])
    with pytest.raises(ValueError, match="without variation"):
        krippendorff_alpha(["aa", "aa"])


@given(st.lists(st.text("ab", max_size=4), max_size=8))
def test_agreement_is_in_range(units):
    pairs = [unit for unit in units if len(unit) > 1]
    if not pairs:
        return
    assert 0 <= pairwise_agreement(units) <= 1
    if len(set("".join(pairs))) > 1:
        assert -1 <= krippendorff_alpha(units) <= 1


def test_the_audit_finds_what_the_paper_misprints():
    found = {finding.about: finding.recomputed for finding in recomputed()}
    assert found["extra training time per batch"] == "4.2 %"
    assert found["sign test of representativeness, 1500 judgements"] == "1.3e-17"
    assert found["sign test of representativeness, 500 items"] == "1e-06"
    assert found["sign test of readability, 1500 judgements"] == "0.28"
    assert found["sign test of readability, 500 items"] == "0.53"
    assert found["ROUGE-1/2/L gain of PG + Dim"] == "+0.22/+0.39/+0.39"
    assert found["ROUGE-1/2/L gain of PG + DyDim"] == "+0.62/+0.71/+0.75"
    assert found["sqrt grows faster than log_1.9 from"] == "x > 8.7"
    agree = {f.about for f in recomputed() if f.agrees}
    assert agree == {
        "sign test of representativeness, 500 items",
        "sqrt grows faster than log_e from",
    }


@pytest.mark.parametrize("base", [1.9, 2.2, math.e, 5])
def test_slopes_cross_where_the_audit_says(base):
    x = crossing(base)
    for step, sign in ((-0.01, -1), (0.01, 1)):
        difference = 0.5 / math.sqrt(1 + x + step) - 1 / ((1 + x + step) * math.log(base))
        assert difference * sign > 0
