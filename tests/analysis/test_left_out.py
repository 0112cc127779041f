"""Shares, labels and AUROC: against loops, against the worlds' own counts, and on coverage that
knows everything."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwindle.analysis import left_out
from dwindle.auditing.roc import auroc
from dwindle.data.worlds import newsroom, phrasebook
from dwindle.runfiles.outputs import Item
from tests.scripts import TEXTS, UNMARKED


def test_shares_by_hand():
    coverage = np.array([9.0, 1.0, 3.0, 0.5, 0.5])
    places = [-1, 0, 4, 10, 14]  # the first is no token of the text; the mean of the others is 1.25
    parts = [(0, 8), (8, 20), (20, 30)]
    assert left_out.shares(coverage, places, parts) == [2 / 1.25, 0.5 / 1.25, None]
    assert left_out.shares(coverage, [-1] * 5, parts) == [None] * 3


def test_one_sentence_is_ranked_by_its_words():
    assert left_out.units("One. Two!") == ("sentences", [(0, 5), (5, 9)])
    assert left_out.units("a bb c") == ("words", [(0, 1), (2, 4), (5, 6)])
    assert left_out.units("") == ("words", [])


def test_characters_that_are_read_as_one_token_are_one_part():
    text = "市议会关闭旧桥，下周"
    places, tokens = [0, 1, 3, 5, 6, 7, -1], ["市", "▁议会", "关闭", "旧", "桥", "，", "</s>"]
    read = ["市", "议会", "关闭", "旧", "桥，", "下", "周"]

    def parts(*more):
        return [text[a:b] for a, b in left_out.units(text, *more)[1]]

    assert parts() == [*"市议会关闭旧", "桥，", "下", "周"]
    assert parts(places, tokens) == parts(places) == read  # the last two were not read
    # what is not read in the middle has no share of its own, and takes none from its neighbour
    assert parts([0, 3, 5, 6], ["市", "关闭", "旧", "桥"]) == ["市", "议", "会", *read[2:]]


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 3)), min_size=2, max_size=30
    )
)
def test_auroc_and_threshold_are_those_of_a_loop(rows):
    left, scores = np.array([r[0] for r in rows]), np.array([float(r[1]) for r in rows])
    weights = np.array([r[2] for r in rows])
    pairs = [
        (w * v, 1.0 if a < b else 0.5 if a == b else 0.0)
        for gone, a, w in zip(left, scores, weights, strict=True)
        for other, b, v in zip(left, scores, weights, strict=True)
        if gone and not other
    ]
    total = sum(w for w, _ in pairs)
    found = auroc(left, -scores, weights)
    assert (
        np.isnan(found)
        if not total
        else found == pytest.approx(sum(w * x for w, x in pairs) / total)
    )
    if left.any() and not left.all():

        def j(at):
            return (scores[left] <= at).mean() - (scores[~left] <= at).mean()

        assert j(left_out.best_threshold(left, scores)) == pytest.approx(
            max(j(at) for at in scores)
        )


def outputs_of(example):
    """Outputs of which it is known what they leave out: all, and the summary without one of its
    sentences."""
    whole = example.references[0]
    lines = whole.split("\n")
    return [whole, "", *("\n".join(lines[:k] + lines[k + 1 :]) for k in range(len(lines)))]


@pytest.mark.parametrize("world", [newsroom, phrasebook])
def test_labels_agree_with_the_worlds_own_count(world):
    for example in world.examples("test", 25, 3):
        for output in outputs_of(example):
            spans, truth = left_out._KNOWN[example.gold["world"]](
                example.gold, example.source, output
            )
            assert len(spans) == len(truth)
            omitted = world.count(example.gold, output).omitted
            gone = [left for left, wanted, _ in truth if wanted and left]
            assert bool(gone) == (omitted > 0)
            if not output:
                assert all(left for left, _, _ in truth if left is not None)


def test_every_sentence_of_the_newsroom_tells_one_thing():
    for example in newsroom.examples("dev", 40, 1):
        _, truth = left_out._newsroom(example.gold, example.source, example.references[0])
        assert all(left is not None for left, _, _ in truth)
        # the reference states what is wanted and nothing else
        assert all(left != wanted for left, wanted, _ in truth)


def parts_of(count, coverage):
    parts = []
    for example in newsroom.examples("test", count, 1):
        lines = example.references[0].split("\n")
        item = Item(
            example.id, lines[0], example.references, example.source, extra={"gold": example.gold}
        )
        places = [m.start() for m in re.finditer(r"\S+", example.source)]
        parts += left_out.judged(item, coverage(item, places), places)
    return parts


def test_coverage_that_knows_is_perfect_and_coverage_that_does_not_is_guessing():
    rng = np.random.default_rng(0)

    def knowing(item, places):
        spans, truth = left_out._newsroom(item.extra["gold"], item.source, item.hypothesis)
        said = np.array(
            [
                any(
                    a <= p < b and not left for (a, b), (left, *_) in zip(spans, truth, strict=True)
                )
                for p in places
            ]
        )
        told = said + 0.01 * rng.random(len(places))
        return {"effective coverage": told, "raw attention": rng.random(len(places))}

    effective, raw, lexical = left_out.verdicts(parts_of(60, knowing))
    assert (effective.auroc, effective.precision, effective.recall) == (1, 1, 1)
    assert effective.low == effective.high == 1
    assert 0.4 < raw.auroc < 0.6
    assert raw.low < raw.auroc < raw.high
    assert lexical.auroc > 0.8  # names and things are copied


def test_listeners_are_judged_where_outputs_were_audited():
    parts = []
    for example in newsroom.examples("test", 20, 1):
        output = example.references[0].split("\n")[0]
        item = Item(
            example.id, output, example.references, example.source, extra={"gold": example.gold}
        )
        spans, truth = left_out._newsroom(example.gold, example.source, output)
        marks = [None] * len(example.source)
        for (first, last), (left, *_) in zip(spans, truth, strict=True):
            marks[first + 1 : last] = [3.0 if left else -1.0] * (last - first - 1)
        parts += left_out.judged(item, {}, [], marks)
    told = {one.method: one.auroc for one in left_out.verdicts(parts)}
    assert told["listeners"] == 1
    assert told["lexical overlap"] < 1


def test_one_kind_of_parts_alone_cannot_be_judged():
    part = left_out.JudgedPart("a", True, True, False, {"raw attention": 1.0})
    with pytest.raises(ValueError, match="both kinds"):
        left_out.verdicts([part, part])


def test_a_world_without_parts_is_refused_in_one_sentence():
    item = Item("a", "x", source="x", extra={"gold": {"world": "scenes"}})
    with pytest.raises(ValueError, match="newsroom, phrasebook"):
        left_out.judged(item, {}, [0])


def test_a_fact_told_with_another_verb_is_misreported():
    example = newsroom.examples("test", 1, 1)[0]
    fact = example.gold["facts"][0]
    wrong = f"somebody painted the {fact['what'][0]} of {fact['what'][1]} ."
    spans, truth = left_out._newsroom(example.gold, example.source, wrong)
    told = [
        row
        for (a, b), row in zip(spans, truth, strict=True)
        if set(fact["what"]) <= set(example.source[a:b].split())
    ]
    assert told
    assert all(left and misreported for left, _, misreported in told)
    assert not any(
        misreported for *_, misreported in left_out._newsroom(example.gold, example.source, "")[1]
    )


@pytest.mark.parametrize("name", TEXTS)
def test_a_dropped_sentence_is_seen_in_every_script(name):
    """Coverage of two of three sentences: the third is a part of its own, and has no share. Where
    no mark ends a sentence, its words have none."""
    text = TEXTS[name]
    unit, spans = left_out.units(text)
    third = spans[-1][0] if unit == "sentences" else text.rindex(" ") + 1
    coverage = np.array([1.0 if at < third else 0.0 for at in range(len(text))])
    shares = left_out.shares(coverage, range(len(text)), spans)
    assert unit == ("words" if name in UNMARKED else "sentences")
    assert {share for (first, _), share in zip(spans, shares, strict=True) if first >= third} == {
        0.0
    }
    assert min(share for (first, _), share in zip(spans, shares, strict=True) if first < third) > 1


def test_signs_belong_to_the_word_they_touch():
    text = "<b> two, (three) four-five"
    name, spans = left_out.units(text)
    assert name == "words"
    assert [text[first:last] for first, last in spans] == [
        "<b>",
        "two,",
        "(three)",
        "four-",
        "five",
    ]
