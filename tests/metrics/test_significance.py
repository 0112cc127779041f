"""Significance: equal to sacrebleu's paired tests, to slow twins, and to known results."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from dwindle.metrics import catalogue, significance
from dwindle.metrics.score import reduce
from tests.metrics.texts import system

BASE, BETTER, SAME = system(60, 1), system(60, 2, quality=0.36), system(60, 3)
METRICS = catalogue.find(["bleu", "rouge1", "repetition2:micro", "cider"])
BLEU_METRIC = METRICS[0]


@pytest.mark.parametrize("test", ["bs", "ar"])
@pytest.mark.parametrize("seed", [12345, 7])
def test_bleu_equals_the_paired_tests_of_sacrebleu(test, seed, monkeypatch):
    """Same seed, same draws: the same p-value (by bootstrap, of the option), and the same
    interval."""
    monkeypatch.setitem(os.environ, "SACREBLEU_SEED", str(seed))
    systems = [
        (s.name, [i.hypothesis.replace("\n", " ") for i in s.items]) for s in (BASE, BETTER, SAME)
    ]
    references = [[i.references[0].replace("\n", " ") for i in BASE.items]]
    _, results = PairedTest(systems, {"BLEU": BLEU()}, references, test, n_samples=400)()
    base, *others = (reduce(s, [BLEU_METRIC]) for s in (BASE, BETTER, SAME))
    for row, expected in zip(
        significance.compare(base, others, [BLEU_METRIC], 400, seed, "sacrebleu"),
        results["BLEU"][1:],
        strict=True,
    ):
        assert row[0].score.value == pytest.approx(expected.score)
        if test == "ar":
            assert row[0].p_randomisation == pytest.approx(expected.p_value)
        else:
            assert row[0].p_bootstrap == pytest.approx(expected.p_value)
            assert (row[0].score.high - row[0].score.low) / 2 == pytest.approx(
                expected.ci, rel=1e-4
            )


def test_resampling_equals_scoring_the_resampled_items():
    """The slow twin: draw items, sum their rows, apply the formula."""
    statistics = reduce(BASE, METRICS)
    rng = np.random.default_rng(3)
    drawn = rng.choice(60, size=(50, 60), replace=True)
    scores = significance.intervals(statistics, METRICS, 50, 3)
    for metric, score in zip(METRICS, scores, strict=True):
        rows = statistics.of(metric)
        values = sorted(float(metric.formula(rows[d].sum(0), 60)) for d in drawn)
        assert score.low == pytest.approx(values[1])
        assert score.high == pytest.approx(values[-2])
        assert str(score.signature).endswith("|seed:3|bs:50")


def test_the_bootstrap_p_against_a_slow_twin():
    """Of 200 resamples, those that stray from the difference as far as it is from zero."""
    base, other = reduce(BASE, METRICS[1:2]), reduce(SAME, METRICS[1:2])
    (found,) = significance.compare(base, [other], METRICS[1:2], 200, 3)[0]
    gaps = (other.of(METRICS[1]) - base.of(METRICS[1]))[:, 0]  # of a mean over items
    drawn = np.random.default_rng(3).choice(60, size=(200, 60), replace=True)
    strayed = sum(abs(gaps[d].mean() - gaps.mean()) >= abs(gaps.mean()) for d in drawn)
    assert found.p_bootstrap == (strayed + 1) / 201
    assert found.score.signature["p"] == "centred"


def test_slices_change_nothing(monkeypatch):
    base, other = reduce(BASE, METRICS), reduce(BETTER, METRICS)
    whole = significance.compare(base, [other], METRICS, 200, 1)
    monkeypatch.setattr(significance, "_CELLS", 60 * 40)
    sliced = significance.compare(base, [other], METRICS, 200, 1)
    for one, two in zip(whole[0], sliced[0], strict=True):
        assert (one.p_bootstrap, one.p_randomisation, one.wins) == (
            two.p_bootstrap,
            two.p_randomisation,
            two.wins,
        )
        assert (one.low, one.high) == pytest.approx((two.low, two.high))


def test_a_system_against_itself_is_no_evidence():
    base = reduce(BASE, METRICS)
    for comparison in significance.compare(base, [base], METRICS, 100, 1)[0]:
        assert comparison.p_bootstrap == comparison.p_randomisation == 1
        assert comparison.difference == comparison.low == comparison.high == comparison.wins == 0


def test_a_real_difference_is_found_and_an_imagined_one_is_not():
    good = system(60, 9, quality=0.8)
    (strong,), (weak,) = (
        significance.compare(reduce(BASE, METRICS[1:2]), [reduce(s, METRICS[1:2])], METRICS[1:2])
        for s in (good, SAME)
    )
    assert max(strong[0].p_bootstrap, strong[0].p_randomisation) < 0.01
    assert strong[0].wins == 1
    assert strong[0].low > 0
    assert min(weak[0].p_bootstrap, weak[0].p_randomisation) > 0.05
    assert weak[0].low < 0 < weak[0].high


def test_two_items_that_happen_to_agree_are_no_evidence():
    """Of four ways to swap two differing items, two give the very difference: p is a half, not one
    in a thousand."""
    shuffles = np.abs(np.random.default_rng(0).choice([-1, 1], (1000, 2)) @ [1.0, 1.0]) / 50
    assert significance.p_value(shuffles, 2 / 50) == pytest.approx(0.5, abs=0.05)


def test_holm_by_hand():
    # Sorted: .01 x 3, .02 x 2, .04 x 1, each at least the one before.
    assert significance.holm([0.02, 0.04, 0.01]) == pytest.approx([0.04, 0.04, 0.03])
    assert significance.holm([0.6, 0.7]) == [1, 1]
    assert significance.holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=6))
def test_holm_lies_between_none_and_bonferroni(p_values):
    for p, corrected in zip(p_values, significance.holm(p_values), strict=True):
        assert p <= corrected <= min(1, len(p_values) * p) or corrected == pytest.approx(
            max(p_values)
        )


def test_holm_corrects_across_systems():
    base, *others = (reduce(s, METRICS[:1]) for s in (BASE, BETTER, SAME))
    rows = significance.compare(base, others, METRICS[:1], 200, 1)
    expected = significance.holm([row[0].p_bootstrap for row in rows])
    assert [row[0].holm_bootstrap for row in rows] == expected


def test_bad_requests_are_refused():
    base = reduce(BASE, METRICS[:1])
    with pytest.raises(ValueError, match="39 resamples cannot bound"):
        significance.intervals(base, METRICS[:1], 39)
    with pytest.raises(ValueError, match="seed -1 is negative"):
        significance.intervals(base, METRICS[:1], 100, -1)
    with pytest.raises(ValueError, match="no bootstrap 'folded': choose centred or sacrebleu"):
        significance.compare(base, [base], METRICS[:1], bootstrap="folded")
    with pytest.raises(ValueError, match="lacks 30 ids"):
        significance.compare(base, [reduce(system(30), METRICS[:1])], METRICS[:1])
