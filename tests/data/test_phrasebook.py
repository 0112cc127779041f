"""The world of sentences: its grammar, its gold alignment, and that its counts are exact."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwindle.data.worlds.common import Counts
from dwindle.data.worlds.phrasebook import Phrasebook, count, examples, lexicon

NUMBERS = st.integers(0, 500)


def drawn(number, **knobs):
    return examples("test", 501, 3, Phrasebook(**knobs))[number]


def units(example):
    return [entry for entry in example.gold["alignment"] if entry["options"]]


@given(NUMBERS)
def test_the_alignment_accounts_for_every_target_word(number):
    example = drawn(number)
    source, target = example.source.split(), example.target.split()
    aligned = sorted(place for entry in example.gold["alignment"] for place in entry["to"])
    assert aligned == list(range(len(target)))
    assert [entry["word"] for entry in example.gold["alignment"]] == source
    for entry in example.gold["alignment"]:
        said = [target[place] for place in entry["to"]]
        assert said in entry["options"] if entry["options"] else not said
        assert len(said) <= 2


@given(NUMBERS, st.data())
def test_leaving_a_word_untranslated_omits_it(number, data):
    example = drawn(number)
    gone = data.draw(st.sampled_from(units(example)))["to"]
    left = " ".join(word for i, word in enumerate(example.target.split()) if i not in gone)
    assert count(example.gold, left) == Counts(len(units(example)), 1, 0, 0, 0)


@given(NUMBERS, st.data())
def test_translating_a_word_twice_repeats_it(number, data):
    example = drawn(number)
    target = example.target.split()
    again = [target[i] for i in data.draw(st.sampled_from(units(example)))["to"]]
    assert count(example.gold, " ".join([*target, *again])) == Counts(
        len(units(example)), 0, 1, 0, 0
    )


@given(NUMBERS, st.data())
def test_a_word_for_another_is_omitted_and_invented(number, data):
    example = drawn(number)
    target = example.target.split()
    places = data.draw(st.sampled_from(units(example)))["to"]
    wrong = [word for i, word in enumerate(target) if i not in places] + ["nonsense"]
    assert count(example.gold, " ".join(wrong)) == Counts(len(units(example)), 1, 0, 1, 0)


@given(NUMBERS, st.data())
def test_the_other_translation_is_as_good(number, data):
    example = drawn(number)
    target = example.target.split()
    for entry in units(example):
        option = data.draw(st.sampled_from(entry["options"]))
        for place, token in zip(entry["to"], option, strict=True):
            target[place] = token
    assert count(example.gold, " ".join(target)) == Counts(len(units(example)), 0, 0, 0, 0)


@given(NUMBERS, st.randoms(use_true_random=False))
def test_order_is_not_counted(number, rng):
    example = drawn(number)
    target = example.target.split()
    rng.shuffle(target)
    assert count(example.gold, " ".join(target)) == Counts(len(units(example)), 0, 0, 0, 0)


def gold(*entries):
    return {"alignment": [{"options": [list(o) for o in options]} for options in entries]}


TWO = gold((("ka", "ta"),), (("ka", "ta"),), (("mo",), ("ru",)), ())


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("ka ta ka ta mo", (0, 0, 0)),
        ("ru ka ka ta ta", (0, 0, 0)),
        ("ka ta mo", (1, 0, 0)),
        ("ka ta ka mo", (1, 0, 1)),  # half of the second: not said, and licensed by nothing
        ("ka ta ka ta ta mo", (0, 1, 0)),
        ("ka ta ka ta mo ru", (0, 1, 0)),
        ("ka ta ka ta mo mo mo zzz", (0, 2, 1)),
        ("KA TA ka ta Mo", (0, 0, 0)),
    ],
)
def test_by_hand(text, counts):
    assert count(TWO, text) == Counts(3, *counts)


def test_no_target_word_translates_two_source_words():
    book = lexicon(1, Phrasebook(nouns=300, verbs=200, adjectives=100))
    owners = {}
    for word in (*book.nouns, *book.verbs, *book.adjectives, *book.adverbs, *book.prepositions):
        for token in {t for form in word.forms for option in form for t in option}:
            assert owners.setdefault(token, word.source) == word.source
    sources = [
        w.source for part in (book.nouns, book.verbs, book.adjectives, book.adverbs) for w in part
    ]
    assert len(set(sources)) == len(sources)
    assert not set(sources) & set(owners)


def test_the_grammar():
    """Verb last, adjective after its noun and in its class's form, particle right after the
    subject."""
    book = lexicon(3, Phrasebook())
    nouns, verbs = {w.source: w for w in book.nouns}, {w.source: w for w in book.verbs}
    adjectives = {w.source: w for w in book.adjectives}
    splits = 0
    for example in examples("train", 200, 3):
        source, to = example.source.split(), [e["to"] for e in example.gold["alignment"]]
        (verb,) = (i for i, word in enumerate(source) if word in verbs)
        assert max(to[verb]) == len(example.target.split()) - 1
        for i, word in enumerate(source):
            if word in adjectives:
                assert to[i][0] == max(to[i + 1]) + 1
                options = adjectives[word].forms[nouns[source[i + 1]].noun_class]
                assert example.gold["alignment"][i]["options"] == [
                    list(option) for option in options
                ]
        if verbs[source[verb]].is_split:
            splits += 1
            assert min(to[verb]) == sum(len(places) for places in to[:verb])
    assert splits > 20


def test_words_recur_and_rows_are_long():
    made = examples("train", 300, 1)
    recurring = sum(
        len(set(content)) < len(content)
        for e in made
        if (content := [w for w in e.source.split() if len(w) > 2])
    )
    assert recurring > 100
    assert any(e.source.split().count("u") >= 3 for e in made)
    lengths = [len(e.source.split()) for e in made]
    assert 8 < sum(lengths) / 300 < 20


def test_more_clauses_and_longer_rows():
    made = examples("train", 200, 1, Phrasebook(clauses=3, row=6))
    assert any(e.source.split().count("ke") == 2 for e in made)
    for example in made:
        counts = count(example.gold, example.target)
        assert counts == Counts(counts.facts, 0, 0, 0, 0)


@given(st.text())
def test_any_text_is_counted(text):
    counts = count(TWO, text)
    assert 0 <= counts.omitted <= 3
    assert min(counts.repeated, counts.invented) >= 0


@pytest.mark.parametrize(
    "knob", [{"nouns": 3}, {"verbs": 10**6}, {"row": 0}, {"clauses": 0}, {"recurrence": 2.0}]
)
def test_bad_knobs_are_sentences(knob):
    with pytest.raises(ValueError, match=rf"phrasebook\.{next(iter(knob))} is .*: give"):
        Phrasebook(**knob)
