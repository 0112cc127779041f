"""The laws that hold for every metric: order, workers, empty outputs, subsets, ranges."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dwindle.data.script import words
from dwindle.metrics import catalogue, copied, halves, layout, length, repetition, seeds
from dwindle.metrics.kind import Kind
from dwindle.metrics.score import objection, reduce, score
from dwindle.runfiles.outputs import Item, Outputs, outputs
from tests.metrics.texts import system

NAMES = [
    "rouge",
    "rouge:recall",
    "bleu",
    "bleu:none+compound",
    "cider",
    "cider:plain+spaces",
    "coco-bleu",
    "repetition",
    "layout",
]
NAMES += [
    "repetition:micro",
    "novelty",
    "novelty:micro",
    "copied",
    "copied:micro",
    "length",
    "length:ratio",
    "length:source",
]


def test_names_give_each_metric_once_with_its_own_signature():
    metrics = catalogue.find([*NAMES, "rouge1", "layoutL-reverse"])
    assert len({m.name for m in metrics}) == len(metrics) == len({m.signature for m in metrics})
    assert [m.name for m in catalogue.find(["rougeL:recall"])] == ["rougeL:recall"]
    for name, group in catalogue.GROUPS.items():
        option = "x" if name == "mover" else ""
        assert {m.kind for m in group.build(option)} <= set(group.kinds)
    for bad, words_ in {
        "rogue": "no metric is called 'rogue'",
        "rouge1:x": "no option 'x'",
        "": "no metric is",
    }.items():
        with pytest.raises(ValueError, match=words_):
            catalogue.find([bad])
    with pytest.raises(ValueError, match="no metric was named"):
        catalogue.find([])


def test_neither_workers_nor_order_of_lines_change_a_bit():
    made = system(300)
    metrics = catalogue.find(NAMES)
    shuffled = list(made.items)
    random.Random(5).shuffle(shuffled)
    one = reduce(made, metrics, workers=1)
    for other in (
        reduce(made, metrics, workers=2),
        reduce(outputs("made", shuffled), metrics, workers=3),
    ):
        for metric in metrics:
            assert np.array_equal(one.of(metric), other.of(metric)), metric.name


def test_progress_counts_every_item_once_a_pass():
    made, done = system(300), []
    for workers in (1, 2):
        done.clear()
        reduce(made, catalogue.find(["rouge", "length", "cider"]), workers, done.append)
        assert sum(done) == 600  # the items one by one, then CIDEr over all


def test_an_empty_hypothesis_scores_0_and_counts():
    full = system(10)
    items = [
        *full.items,
        Item("empty", " \n", full.items[0].references, full.items[0].source, line=11),
    ]
    with_empty = outputs("made", items)
    assert [item.id for item in with_empty.empty] == ["empty"]
    for metric in catalogue.find(NAMES):
        before, after = reduce(full, [metric]), reduce(with_empty, [metric])
        place = [item.id for item in with_empty.items].index("empty")
        assert after.values(metric)[place] == 0, metric.name
        if "micro" not in metric.name and not metric.name.startswith(
            ("bleu", "cider", "length:ratio", "length:source")
        ):
            assert after.value(metric) == pytest.approx(before.value(metric) * 10 / 11), metric.name


def test_what_a_metric_needs_is_said_in_one_sentence():
    bare = Outputs("bare.jsonl", (Item("1", "a b", line=7),))
    cases = {
        "novelty": "novelty1 needs sources, but bare.jsonl, line 7 has none",
        "layout": "needs sources",
        "rouge": "rouge1 needs references, but bare.jsonl, line 7 has no reference",
        "bleu": "needs references",
        "length:ratio": "needs references",
        "length:source": "needs sources",
    }
    for name, sentence in cases.items():
        with pytest.raises(ValueError, match=sentence):
            score(bare, catalogue.find([name]))
    for references in (("  ",), ("a", "")):
        empty = Outputs("bare.jsonl", (Item("1", "a b", references, line=7),))
        with pytest.raises(ValueError, match="has an empty reference"):
            score(empty, catalogue.find(["rouge"]))


def test_a_statistic_that_is_not_a_number_is_refused():
    class Bad:
        needs = frozenset()

        def row(self, item):
            return [float("nan")]

    metric = catalogue.find(["length"])[0]
    bad = type(metric)(Kind("bad", "bad"), Bad(), (0,), metric.formula, ())
    with pytest.raises(ValueError, match=r"bad is not a number for made, line 1"):
        reduce(system(3), [bad])


RANGES = {
    "cider": (0, 10.000001),
    "length": (0, np.inf),
    "sentences": (0, np.inf),
    "copied-longest": (0, np.inf),
}


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.text(max_size=60), st.text(max_size=60), st.text(max_size=90)),
        min_size=1,
        max_size=5,
    )
)
def test_no_text_takes_a_score_out_of_its_range(triples):
    items = [Item(str(i), h, (r + "x",), s) for i, (h, r, s) in enumerate(triples)]
    system = outputs("fuzz", items)
    # for its script
    metrics = [metric for metric in catalogue.find(NAMES) if not objection(system, metric)]
    statistics = reduce(system, metrics)
    for metric in metrics:
        low, high = RANGES.get(metric.name.partition(":")[0], (0, 100.000001))
        if metric.name in ("length:ratio", "length:source"):
            high = np.inf
        for value in (statistics.value(metric), *statistics.values(metric)):
            assert low <= value <= high, metric.name


# The analyses, each with a twin that follows its definition.

some_words = st.lists(st.sampled_from("abcde"), max_size=16)


def grams(tokens, n):
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


@given(some_words)
def test_repetition_is_one_minus_distinct_over_all(tokens):
    row = repetition.Repetition().row(Item("1", " ".join(tokens)))
    for i, n in enumerate(repetition.ORDERS):
        all_grams = grams(tokens, n)
        share = 100 * (1 - len(set(all_grams)) / len(all_grams)) if all_grams else 0
        assert row[3 * i + 2] == pytest.approx(share)


def test_macro_and_micro_differ_as_their_definitions_do():
    # 3 of 4 and 0 of 2 are duplicates
    made = outputs("two", [Item("1", "a a a a"), Item("2", "a b")])
    macro, micro = (catalogue.find([f"repetition1{o}"]) for o in ("", ":micro"))
    assert score(made, macro)[0].value == pytest.approx((75 + 0) / 2)
    assert score(made, micro)[0].value == pytest.approx(100 * 3 / 6)


@given(some_words, some_words)
def test_novelty_counts_the_grams_that_are_not_in_the_source(text, source):
    row = copied.Copied().row(Item("1", " ".join(text), source=" ".join(source)))
    for i, n in enumerate(copied.ORDERS):
        novel = sum(gram not in grams(source, n) for gram in grams(text, n))
        assert row[3 * i] == novel
        assert row[3 * i + 1] == len(grams(text, n))


@given(some_words, some_words)
def test_copied_spans_are_runs_of_the_source_that_cannot_be_longer(text, source):
    spans = copied.spans(copied.run_lengths(text, source))
    for (start, size), (after, _) in zip(spans, [*spans[1:], (len(text), 0)], strict=False):
        assert size >= 3
        assert tuple(text[start : start + size]) in grams(source, size)
        assert start + size == len(text) or tuple(text[start : start + size + 1]) not in grams(
            source, size + 1
        )
        assert start + size <= after


def test_copied_share_and_longest():
    item = Item("1", "X one two three y one two", source="one two three four one two")
    assert copied.Copied().row(item)[-4:] == [3, 7, pytest.approx(300 / 7), 3]


def test_layout_bias_both_directions_and_lead3():
    source = "The first line .\nA second one\n\n  \nThird sentence here\nFourth"
    assert layout.lead(source) == "The first line .\nA second one\nThird sentence here"
    made = outputs("o", [Item("1", "line first the\nhere", ("r",), source, extra={"k": 1})])
    first = layout.lead3(made)
    assert first.items[0].hypothesis == layout.lead(source)
    assert first.items[0].extra == {"k": 1}
    assert [s.value for s in score(first, layout.metrics())] == [100, 100, 100, 100]
    values = {s.metric: s.value for s in score(made, layout.metrics())}
    # Lead: 9 tokens, output: 4. Unigrams match 4, bigrams none, the LCS of lines 1 and 3 match one
    # each.
    assert values["layout1"] == pytest.approx(100 * 2 * 4 / 13, abs=1e-3)
    assert values["layout2"] == 0
    assert values["layoutL"] == pytest.approx(100 * 2 * 2 / 13, abs=1e-3)
    with pytest.raises(ValueError, match="LEAD-3 needs sources"):
        layout.lead3(outputs("o", [Item("1", "a")]))


def test_union_lcs_depends_on_the_direction():
    made = outputs("o", [Item("1", "a a", source="a\na")])
    values = {s.metric: s.value for s in score(made, layout.metrics())}
    # Each sentence of the lead is found in the output, but a sentence "a" hits one word of "a a".
    assert (values["layoutL"], values["layoutL-reverse"]) == (100, 50)


def test_length_ratio_is_of_sums():
    made = outputs("o", [Item("1", "a b c", ("a b", "a b c d")), Item("2", "a", ("a",))])
    assert score(made, length.metrics("ratio"))[0].value == pytest.approx(4 / 4)
    assert [s.value for s in score(made, length.metrics())] == [2, 1]


@given(st.text())
def test_words_have_no_punctuation_and_no_capitals(text):
    assert all(w == w.casefold() and not any(c in ".,;!?-'" for c in w) for w in words(text))


def half(made, *ids):
    """Some of its items as a system of their own."""
    return replace(made, items=tuple(item for item in made.items if item.id in ids))


@pytest.mark.parametrize("letter", ["w ", "今"])
def test_halves_are_by_the_length_of_the_source(letter):
    items = [
        Item(str(i), f"a b c{i % 2}", ("a c0",), letter * length_)
        for i, length_ in enumerate([5, 1, 3, 3, 9])
    ]
    made, metrics = outputs("o", items), catalogue.find(["rouge1", "length"])
    found = halves.halved(reduce(made, metrics))
    sides = [reduce(half(made, *ids), metrics) for ids in ("12", "034")]
    for metric in metrics:
        parts = halves.metrics([metric])
        short, long = (side.value(metric) for side in sides)
        assert [part.name for part in parts] == [
            f"{metric.name}/{name}" for name in ("short", "long", "gap")
        ]
        assert [found.value(part) for part in parts] == pytest.approx([short, long, long - short])
        assert str(parts[0].signature).startswith(f"{metric.name}/short|half:short|")
    assert found.value(halves.metrics(metrics)[2]) != 0


def test_halves_of_every_metric_are_those_of_two_files():
    made = system(21)
    metrics = catalogue.find(["bleu", "chrf", "rouge", "repetition", "length:ratio", "coco-bleu"])
    by_length = [item.id for item in sorted(made.items, key=lambda item: len(item.source))]
    found = halves.halved(reduce(made, metrics))
    sides = [reduce(half(made, *ids), metrics) for ids in (by_length[:10], by_length[10:])]
    for metric in metrics:
        short, long, _ = halves.metrics([metric])
        assert [found.value(part) for part in (short, long)] == pytest.approx(
            [side.value(metric) for side in sides]
        )


def test_a_gain_that_grows_with_length_is_clear():
    """One system is better by the same everywhere, one in the long half only; resamples may have
    any number of it."""
    sources = ["w" * (i + 1) for i in range(40)]

    def written(better):
        return outputs(
            "o",
            [
                Item(f"{i:02}", "a b" if better(i) else "a x", ("a b",), s)
                for i, s in enumerate(sources)
            ],
        )

    metrics = catalogue.find(["rouge1"])
    base, same, long = (
        halves.halved(reduce(written(better), metrics))
        for better in (lambda i: i % 4 == 0, lambda i: i % 2 == 0, lambda i: i % 4 == 0 or i >= 20)
    )
    one, two = (
        row[2] for row in seeds.differences([base], [[same], [long]], halves.metrics(metrics))
    )
    assert (one.metric, one.difference) == ("rouge1/gap", 0)
    assert two.difference == pytest.approx(100 * 15 / 20 / 2)
    assert two.low > 0
    assert two.p_holm < 0.01 < one.p_holm


def test_halves_need_sources_and_two_items():
    with pytest.raises(ValueError, match="halves need sources"):
        halves.halved(
            reduce(outputs("o", [Item("1", "a"), Item("2", "b")]), catalogue.find(["length"]))
        )
    with pytest.raises(ValueError, match="at least two"):
        halves.halved(reduce(outputs("o", [Item("1", "a", (), "s")]), catalogue.find(["length"])))
