"""Differences over several seeds, against a slow twin. How often chance alone gives one:
``test_nulls.py``."""

import numpy as np
import pytest

from dwindle.metrics import catalogue, significance
from dwindle.metrics.kind import Kind
from dwindle.metrics.score import Metric, Statistics, mean, reduce
from dwindle.metrics.seeds import average, differences
from dwindle.runfiles.outputs import Item, outputs

METRIC = Metric(Kind("number", "a number"), "rows", (0,), mean, ())  # type: ignore[arg-type]


def made(numbers) -> Statistics:
    """A system whose items have these values of the one metric."""
    system = outputs("made", [Item(str(i), "x", line=i) for i in range(len(numbers))])
    return Statistics(system, {"rows": np.asarray(numbers, float)[:, None]})


def drawn(rng, shift, seeds=3, items=60, of_seed=0.0, of_item=1.0, hard=None):
    """One system's statistics: difficulty of items, luck of seeds, and noise."""
    hard = np.zeros(items) if hard is None else hard
    return [
        made(
            shift + hard + rng.normal(0, of_seed) + rng.normal(0, of_item, items)
            if of_item
            else shift + hard
        )
        for _ in range(seeds)
    ]


def test_one_seed_is_the_paired_test_of_compare():
    rng = np.random.default_rng(0)
    a, b = drawn(rng, 0, 1), drawn(rng, 0.3, 1)
    (found,) = differences(a, [b], [METRIC])[0]
    (known,) = significance.compare(a[0], b, [METRIC])[0]
    assert (found.difference, found.low, found.high) == pytest.approx(
        (known.difference, known.low, known.high)
    )
    assert (found.p, found.p_holm) == (known.p_randomisation, known.holm_randomisation)


def test_three_seeds_against_a_slow_twin():
    rng = np.random.default_rng(1)
    a, b = drawn(rng, 0), drawn(rng, 0.2, of_seed=0.2)
    (found,) = differences(a, [b], [METRIC])[0]
    first, second = (np.array([s.of(METRIC)[:, 0] for s in runs]) for runs in (a, b))
    pairs = second.mean(1) - first.mean(1)
    assert found.seeds == pytest.approx(pairs)
    assert found.difference == pytest.approx(pairs.mean())
    draw = np.random.default_rng(1)
    picks = draw.choice(60, size=(1000, 60), replace=True)
    gap = (second - first).mean(0)
    noise = np.random.default_rng([1, 3]).standard_t(2, 1000) * pairs.std(ddof=1) / np.sqrt(3)
    values = np.sort([gap[pick].mean() + n for pick, n in zip(picks, noise, strict=True)])
    assert (found.low, found.high) == pytest.approx((values[25], values[-26]))
    far = np.sum(np.abs(values - pairs.mean()) > abs(pairs.mean()))
    assert found.p == pytest.approx((far + 1) / 1001)


def test_the_paired_bootstrap_alone_would_be_fooled_by_seeds():
    rng = np.random.default_rng(3)
    fooled = [
        significance.compare(
            average(drawn(rng, 0, of_seed=1, of_item=0.1)),
            [average(drawn(rng, 0, of_seed=1, of_item=0.1))],
            [METRIC],
            40,
        )[0][0].p_randomisation
        < 0.05
        for _ in range(40)
    ]
    assert np.mean(fooled) > 0.5


def test_a_large_difference_is_found_and_holm_corrects_across_systems():
    rng = np.random.default_rng(4)
    base, same, better = drawn(rng, 0), drawn(rng, 0), drawn(rng, 2)
    (none,), (real,) = differences(base, [same, better], [METRIC])
    assert real.p_holm < 0.02
    assert real.low > 1
    assert none.p_holm > 0.05
    assert real.p_holm == pytest.approx(2 * real.p)


def test_a_system_against_itself_differs_in_nothing():
    rng = np.random.default_rng(5)
    base = drawn(rng, 0)
    (found,) = differences(base, [base], [METRIC])[0]
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_the_order_of_seeds_within_both_systems_does_not_matter():
    rng = np.random.default_rng(6)
    a, b = drawn(rng, 0), drawn(rng, 0.1)
    (one,), (two,) = (differences(x, [y], [METRIC])[0] for x, y in ((a, b), (a[::-1], b[::-1])))
    assert (one.low, one.high, one.p) == pytest.approx((two.low, two.high, two.p))


def test_bleu_over_seeds_is_bleu_of_all_outputs_together():
    texts = [
        ("the cat sat on the mat today", "a dog ran in the park"),
        ("the cat sat on a mat", "the dog ran in a park"),
    ]
    gold = ("the cat sat on the mat today", "the dog ran in the park")
    items = [[Item(str(i), h, (gold[i],), line=i) for i, h in enumerate(row)] for row in texts]
    bleu = catalogue.find(["bleu"])
    pooled = average([reduce(outputs("x", row), bleu) for row in items]).value(bleu[0])
    both = [
        Item(f"{k}{item.id}", item.hypothesis, item.references)
        for k, row in enumerate(items)
        for item in row
    ]
    assert pooled == pytest.approx(reduce(outputs("x", both), bleu).value(bleu[0]))


def test_a_missing_seed_is_named():
    rng = np.random.default_rng(7)
    with pytest.raises(ValueError, match="as many seeds"):
        differences(drawn(rng, 0), [drawn(rng, 0, 2)], [METRIC])
