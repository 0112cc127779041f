"""Sampling: what a design depends on, and what it refuses."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from dwindle.runfiles.outputs import Item, outputs
from dwindle.study.design import design
from tests.study import study_kit


def test_depends_on_the_seed_and_nothing_else():
    a, b = study_kit.systems(50)
    shuffled = list(a.items)
    random.Random(3).shuffle(shuffled)
    assert design(a, b, 10, 3, 1) == design(replace(a, items=tuple(shuffled)), b, 10, 3, 1)
    assert design(a, b, 10, 3, 1) != design(a, b, 10, 3, 2)


def test_the_draw_is_the_same_for_ever():
    """Drawn by this code when it was written: SHA-256 of JSON, so no other version of anything may
    change it."""
    a, b = study_kit.systems(50)
    pairs = design(a, b, 8, 3, 2).pairs
    assert [(p.name, "".join(p.left)) for p in pairs] == GOLDEN


def test_a_larger_study_holds_the_smaller_one():
    a, b = study_kit.systems(50)
    small, large = ({p.name for p in design(a, b, n, 3, 1).pairs} for n in (10, 30))
    assert small < large


def test_every_item_is_as_likely():
    a, b = study_kit.systems(20)
    drawn = Counter(p.name for seed in range(400) for p in design(a, b, 5, 1, seed).pairs)
    assert len(drawn) == 20
    assert min(drawn.values()) > 60  # expected 100, deviation 8.7
    assert max(drawn.values()) < 140


@pytest.mark.parametrize("raters", [1, 2, 3, 4])
def test_sides_are_balanced_within_an_item_and_fair_between_items(raters):
    a, b = study_kit.systems(1000)
    pairs = design(a, b, 1000, raters, 7).pairs
    assert all(abs(p.left.count("a") - p.left.count("b")) <= 1 for p in pairs)
    for place in range(raters):
        assert 430 < sum(p.left[place] == "a" for p in pairs) < 570  # 500, deviation 16


def test_checks_pair_a_real_summary_with_another_one_in_disorder():
    a, b = study_kit.systems(20)
    made = design(a, b, 10, 2, 1, checks=4)
    checks = [p for p in made.pairs if p.check]
    asked = {p.name for p in made.pairs if not p.check}
    assert (len(checks), len(asked)) == (4, 10)
    texts = {i.id: {i.hypothesis, j.hypothesis} for i, j in zip(a.items, b.items, strict=True)}
    bags = {" ".join(sorted(t.split())): id for id, both in texts.items() for t in both}
    for check in checks:
        assert check.name not in asked
        assert check.a in texts[check.name]
        assert check.b not in {t for both in texts.values() for t in both}
        assert bags[" ".join(sorted(check.b.split()))] != check.name


def test_nobody_is_asked_to_tell_identical_texts_apart():
    a, b = study_kit.systems(30)
    same = {item.id for item in a.items[::3]}
    b = replace(b, items=tuple(replace(i, hypothesis=f" {o.hypothesis}\n") if i.id in same else i
                               for i, o in zip(b.items, a.items, strict=True)))  # fmt: skip
    skipped, tied = design(a, b, 12, 2, 1), design(a, b, 12, 2, 1, identical="tie")
    assert (len(skipped.pairs), skipped.same) == (12, 10)
    assert len(tied.pairs) + tied.same == 12
    assert tied.same > 0
    assert not same & {pair.name for pair in (*skipped.pairs, *tied.pairs)}
    assert {pair.name for pair in tied.pairs} < {pair.name for pair in skipped.pairs}
    with pytest.raises(ValueError, match="of which 20 have two texts that differ"):
        design(a, b, 21, 2, 1)
    with pytest.raises(ValueError, match="there is nothing to ask"):
        design(a, replace(a, name="other"), 5, 2, 1, identical="tie")


def test_practice_is_an_item_that_is_not_asked():
    a, b = study_kit.systems(8)
    made = design(a, b, 4, 2, 1, checks=2, practice=True)
    assert made.practice.name not in {pair.name for pair in made.pairs}
    without = set(design(a, b, 4, 2, 1).pairs)
    assert without == {pair for pair in made.pairs if not pair.check}
    with pytest.raises(ValueError, match="no item left for practice"):
        design(a, b, 8, 2, 1, practice=True)


def test_refuses_what_cannot_be_compared():
    a, b = study_kit.systems(5)
    fewer = replace(b, items=b.items[1:])
    with pytest.raises(ValueError, match="lacks 1 ids"):
        design(a, fewer, 2, 3, 1)
    with pytest.raises(ValueError, match="has 5 items and the study asks for 6"):
        design(a, b, 6, 3, 1)
    with pytest.raises(ValueError, match="5 items and 1 checks"):
        design(a, b, 5, 3, 1, checks=1)
    with pytest.raises(ValueError, match="at least one item"):
        design(a, b, 0, 3, 1)
    bare = outputs("x", [Item("1", "h", ("r",))]), outputs("y", [Item("1", "h", ("r",))])
    with pytest.raises(ValueError, match="has no source"):
        design(*bare, 1, 3, 1)
    with pytest.raises(ValueError, match="named twice"):
        design(a, a, 2, 3, 1)
    short = study_kit.systems(9, a="two words", b="words two")
    with pytest.raises(ValueError, match="only 0 items beside the sample"):
        design(*short, 2, 3, 1, checks=2)


@pytest.mark.parametrize(
    ("one", "two", "names"),
    [
        ("a.jsonl", "b.jsonl", ("a", "b")),
        ("x/outputs.jsonl", "y/outputs.jsonl", ("x/outputs", "y/outputs")),
        ("r/x/o.jsonl", "r/y/o.jsonl", ("x/o", "y/o")),
        ("o.jsonl", "y/o.jsonl", ("o", "y/o")),
    ],
)
def test_names_are_the_shortest_that_differ(one, two, names):
    a, b = study_kit.systems(3)
    assert design(replace(a, name=one), replace(b, name=two), 2, 1, 1).systems == names


GOLDEN = [
    ("id-7", "aba"),
    ("id-48", "bab"),
    ("id-5", "bab"),
    ("id-25", "aba"),
    ("id-19", "aba"),
    ("id-28", "aba"),
    ("id-27", "bab"),
    ("id-23", "bab"),
]
