"""The world of articles: what it promises, and that its counts are exact."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwindle.data.worlds import newsroom_words as words
from dwindle.data.worlds.common import Counts
from dwindle.data.worlds.newsroom import Newsroom, count, examples

NUMBERS = st.integers(0, 500)


def drawn(number, split="test", **knobs):
    return examples(split, 501, 3, Newsroom(**knobs))[number]


def facts_of(sentence, gold):
    """How many facts a sentence of a reference tells: by hand, one for each thing in it."""
    return sum(all(word in sentence.split() for word in fact["what"]) for fact in gold["facts"])


@given(NUMBERS, st.data())
def test_dropping_a_sentence_omits_its_facts(number, data):
    example = drawn(number)
    sentences = example.target.split("\n")
    gone = data.draw(st.sampled_from(sentences))
    left = "\n".join(sentence for sentence in sentences if sentence is not gone)
    facts = len(example.gold["facts"])
    assert count(example.gold, left) == Counts(facts, facts_of(gone, example.gold), 0, 0, 0)


@given(NUMBERS, st.data())
def test_doubling_a_sentence_repeats_its_facts(number, data):
    example = drawn(number)
    sentences = example.target.split("\n")
    place = data.draw(st.integers(0, len(sentences) - 1))
    doubled = [*sentences[: place + 1], *sentences[place:]]
    expected = Counts(len(example.gold["facts"]), 0, facts_of(sentences[place], example.gold), 0, 0)
    assert count(example.gold, "\n".join(doubled)) == expected


@given(NUMBERS, st.data(), st.sampled_from(["who", "what", "did"]))
def test_swapping_a_word_invents_and_omits(number, data, slot):
    """The wrong person, thing or deed: one statement for another, in each fact of the sentence it
    touches."""
    example = drawn(number)
    fact = data.draw(st.sampled_from(example.gold["facts"]))
    verbs = words.ACTIONS[fact["did"]]
    old = {"who": [fact["who"][1]], "what": [fact["what"][1]], "did": list(verbs)}[slot]
    new = {
        "who": "nobodyov",
        "what": "nowhereburg",
        "did": next(v for v in words.ACTION_OF if v not in verbs),
    }[slot]
    changed, touched = [], 0
    for sentence in example.target.split("\n"):
        if all(word in sentence.split() for word in fact["what"]):
            touched = facts_of(sentence, example.gold) if slot == "who" else 1
            clauses = sentence.split(" and ")
            at = (
                0
                if slot == "who"
                else next(i for i, c in enumerate(clauses) if fact["what"][0] in c.split())
            )
            clauses[at] = " ".join(new if word in old else word for word in clauses[at].split())
            sentence = " and ".join(clauses)
        changed.append(sentence)
    assert count(example.gold, "\n".join(changed)) == Counts(
        len(example.gold["facts"]), touched, 0, touched, 0
    )


@given(NUMBERS)
def test_the_whole_article_says_all_and_strays(number):
    """Every news is in it, every old fact and quote strays, what is told again is repeated."""
    example = drawn(number)
    counts = count(example.gold, example.source)
    strays = len(example.gold["background"]) + len(example.gold["quotes"])
    assert (counts.omitted, counts.invented, counts.strayed) == (0, 0, strays)
    assert counts.stated == example.source.count("\n") + 1


@given(NUMBERS)
def test_news_is_never_only_in_the_lead(number):
    example = drawn(number)
    sentences = example.source.split("\n")
    firsts = [
        next(
            i
            for i, s in enumerate(sentences)
            if all(word in s.split() for word in fact["what"]) and "``" not in s
        )
        for fact in example.gold["facts"]
    ]
    assert max(firsts) >= len(sentences) // 2
    assert firsts == sorted(firsts)


def test_small_knobs_and_large():
    plain = drawn(0, facts=1, background=0, quotes=0, redundancy=0)
    assert (plain.source.count("\n"), len(plain.gold["facts"])) == (0, 1)
    large = drawn(0, facts=12, background=12, quotes=12, redundancy=1)
    assert large.source.count("\n") + 1 == 2 * (len(large.gold["facts"]) + 12) + 12
    counts = count(large.gold, large.target)
    assert counts == Counts(len(large.gold["facts"]), 0, 0, 0, 0)


def test_the_lead_is_news_as_often_as_the_knob_says():
    def leads(share):
        found = 0
        for example in examples("train", 400, 1, Newsroom(lead=share, facts=4)):
            first = example.source.split("\n")[0].split()
            found += (
                any(all(w in first for w in fact["what"]) for fact in example.gold["facts"])
                and "``" not in first
            )
        return found / 400

    assert leads(1.0) == 1.0
    assert leads(0.0) < leads(0.7) < 1.0


def test_unseen_names_are_in_dev_and_test_alone():
    def names(split, share):
        made = examples(split, 300, 1, Newsroom(names=50, unseen=share))
        return {word for e in made for word in e.source.split() if word.endswith(("ov", "burg"))}

    known = names("train", 1.0)
    assert len(known) == 100
    assert not names("test", 1.0) & known
    assert names("test", 0.0) <= known
    assert not (names("test", 1.0) & names("dev", 1.0))


def test_the_default_is_small():
    """What the demo trains on: sources of about 70 tokens, targets of at most 30."""
    made = examples("train", 500, 1)
    lengths = sorted(len(e.source.split()) for e in made)
    assert 60 < sum(lengths) / 500 < 80
    assert max(len(e.target.split()) for e in made) <= 30


def verbs_of(text):
    return {word for word in text.split() if word in words.ACTION_OF}


def test_a_summary_has_the_article_s_verbs_or_its_own():
    for e in examples("train", 100, 1, Newsroom(paraphrase=0)):
        assert verbs_of(e.target) <= verbs_of(e.source)
    own = {verb for verbs in words.ACTIONS.values() for verb in verbs[:2]}
    assert all(verbs_of(e.target) <= own for e in examples("train", 100, 1, Newsroom(paraphrase=1)))


def test_a_summary_has_more_than_one_form():
    made = examples("train", 300, 1)
    assert any(" and " in e.target for e in made)
    assert any(" was " in e.target for e in made)
    assert any(" was " not in e.target for e in made)


def test_nothing_but_its_fact_says_that_a_sentence_repeats_another():
    """First and second tellings have the same forms."""
    first, again = set(), set()
    for e in examples("train", 400, 1, Newsroom(redundancy=1, quotes=0)):
        told = set()
        for sentence in e.source.split("\n"):
            fact = next(
                f
                for f in (*e.gold["facts"], *e.gold["background"])
                if f["what"][0] in sentence.split()
            )
            hidden = {*fact["who"], *fact["what"], *words.ACTIONS[fact["did"]], "of"}
            form = " ".join(word for word in sentence.split() if word not in hidden)
            (again if fact["what"][0] in told else first).add(form)
            told.add(fact["what"][0])
    assert first == again


GOLD = {
    "facts": [
        {"who": ["anni", "belov"], "did": "bought", "what": ["mill", "old"]},
        {"who": ["anni", "belov"], "did": "closed", "what": ["barn", "rexburg"]},
    ],
    "background": [{"who": ["carli", "dunov"], "did": "burned", "what": ["tower", "red"]}],
    "quotes": [["sad", "belov"]],
}


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("anni belov bought the old mill and shut the barn of rexburg .", (0, 0, 0, 0)),
        ("Anni Belov acquired the old mill. Belov closed the barn of Rexburg.", (0, 0, 0, 0)),
        ("the old mill was purchased by belov", (1, 0, 0, 0)),
        ("belov bought the old mill the old mill the old mill .", (1, 2, 0, 0)),
        ("belov bought acquired the old mill .", (1, 1, 0, 0)),
        ("bought the old mill .", (2, 0, 1, 0)),
        ("carli belov bought the old mill .", (2, 0, 1, 0)),
        ("belov bought the red mill .", (2, 0, 1, 0)),
        ("belov sold the old mill .", (2, 0, 1, 0)),
        ("years ago belov bought the old mill .", (2, 0, 1, 0)),
        ("years ago carli dunov torched the red tower .", (2, 0, 0, 1)),
        ("dunov burned the red tower . dunov burned the red tower .", (2, 1, 0, 1)),
        ("belov said `` it is a sad time ''", (2, 0, 0, 1)),
        ("<unk> <unk> bought the old mill .", (2, 0, 1, 0)),
        ("belov belov belov .", (2, 0, 1, 0)),
        ("the of was by . , and", (2, 0, 0, 0)),
        ("dunov bought the old mill and closed the barn of rexburg .", (2, 0, 2, 0)),
    ],
)
def test_by_hand(text, counts):
    assert count(GOLD, text) == Counts(2, *counts)


@given(st.text())
def test_any_text_is_counted(text):
    counts = count(GOLD, text)
    assert 0 <= counts.omitted <= counts.facts
    assert min(counts.repeated, counts.invented, counts.strayed, counts.stated) >= 0


@pytest.mark.parametrize(
    "knob", [{"facts": 0}, {"names": 3}, {"names": 10**6}, {"lead": 1.5}, {"unseen": -0.1}]
)
def test_bad_knobs_are_sentences(knob):
    with pytest.raises(ValueError, match=rf"newsroom\.{next(iter(knob))} is .*: give"):
        Newsroom(**knob)


def test_a_shuffled_summary_says_the_same_in_another_order():
    usual, mixed = (
        examples("train", 40, 1, Newsroom(facts=6, shuffled=shuffled)) for shuffled in (False, True)
    )
    assert [e.source for e in mixed] == [e.source for e in usual]
    counted = [count(e.gold, e.target) for e in mixed]
    assert not any(counts.omitted or counts.repeated or counts.invented for counts in counted)
    assert sum(order(e) == sorted(order(e)) for e in mixed) < 5
    assert all(order(e) == sorted(order(e)) for e in usual)


def test_bare_news_is_copied():
    """A summary has the article's own sentences and who says so, not those of long ago; nobody is
    in two of them."""
    knobs = Newsroom(facts=5, background=1, quotes=0, redundancy=0, paraphrase=0, bare=True)
    for example in examples("train", 40, 1, knobs):
        told, said = example.source.split("\n"), example.target.split("\n")
        assert len(said) == len(told) - 1 == len(example.gold["facts"])
        copied = [sentence.partition(" says ") for sentence in said]
        assert {f"{news} ." for news, _, _ in copied} < set(told)
        assert all(who == f"{news.split()[0]} ." for news, _, who in copied)
        assert len(
            {fact["who"][1] for fact in (*example.gold["facts"], *example.gold["background"])}
        ) == len(told)
        counts = count(example.gold, example.target)
        assert (counts.omitted, counts.repeated, counts.invented) == (0, 0, 0)


def order(example) -> list[int]:
    """Where in the summary each fact's thing stands, in the order of the article."""
    said = example.target.split()
    return [min(map(said.index, fact["what"])) for fact in example.gold["facts"]]
