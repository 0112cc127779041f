"""The made world ``newsroom``: articles of facts, and summaries of the salient ones.

A fact is who did what to which thing. An article tells its news, tells some of it again in other words, and is
padded with what happened long ago, told with the same verbs, and with quotes. It often opens with news but always
has some in its second half, so a reader of the lead alone leaves something out. The summary states each piece of
news once, in the order of the article, two by one person at times in one sentence. Names are made of syllables; in
dev and test some were never seen in training and can only be copied. A noun and its adjective (or place) meet in
one split only, so no two splits can share an article.

Tokens with spaces between, a newline between sentences.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dwindle.data.example import SPLITS, Example, Split
from dwindle.data.lazy import Lazy
from dwindle.data.worlds import newsroom_words as words
from dwindle.data.worlds.chance import NAMES, Chance, name
from dwindle.data.worlds.counts import Counts

VERSION = 1
SIZES: dict[Split, int] = {"train": 10_000, "dev": 500, "test": 1_000}
# Which tenths of all pairs of a noun and its adjective or place, by the sum of their numbers, are whose.
_TENTHS: dict[Split, tuple[int, ...]] = {"train": (0, 1, 2, 3, 4, 5, 6, 7), "dev": (8,), "test": (9,)}


@dataclass(frozen=True)
class Newsroom:
    """Knobs of the world: how long and how hard its articles are."""

    facts: int = 3
    """The most pieces of news in an article; the fewest is one less, but at least one."""
    background: int = 2
    """Facts of long ago in an article: told, but not to be summarised."""
    quotes: int = 1
    """Quotes in an article."""
    redundancy: float = 0.3
    """How often a fact is told a second time in other words."""
    lead: float = 0.7
    """How often an article opens with news."""
    names: int = 400
    """How many first names, last names and places, each, training knows."""
    unseen: float = 0.3
    """Which share of the names in dev and test was never seen in training."""

    def __post_init__(self) -> None:
        for knob, low, high in (("facts", 1, 12), ("background", 0, 12), ("quotes", 0, 12), ("names", 50, NAMES // 3)):
            if not low <= getattr(self, knob) <= high:
                raise ValueError(f"newsroom.{knob} is {getattr(self, knob)}: give {low} to {high}")
        for knob in ("redundancy", "lead", "unseen"):
            if not 0 <= getattr(self, knob) <= 1:
                raise ValueError(f"newsroom.{knob} is {getattr(self, knob)}: give a share from 0 to 1")


@dataclass(frozen=True)
class Fact:
    """Who (first and last name) did what (an action) to which thing (its two content words)."""

    who: tuple[str, str]
    did: str
    what: tuple[str, str]
    thing: str
    """The thing as it is written."""

    def told(self, form: str, verb: str) -> str:
        return form.format(full=" ".join(self.who), last=self.who[1], verb=verb, thing=self.thing)

    def gold(self) -> dict[str, Any]:
        return {"who": list(self.who), "did": self.did, "what": list(self.what)}


@dataclass(frozen=True)
class Sentence:
    """A sentence of an article: where it stands, in [0, 1), and the fact it tells, if it is no quote."""

    place: float
    text: str
    fact: Fact | None = None


def examples(split: Split, count: int | None, seed: int, knobs: Newsroom | None = None) -> Sequence[Example]:
    """The first ``count`` examples of a split. Example i does not depend on how many there are."""
    size = SIZES[split] if count is None else count
    return Lazy(partial(_example, split, seed, knobs or Newsroom()), range(size))


def _example(split: Split, seed: int, knobs: Newsroom, index: int) -> Example:
    chance = Chance("newsroom", VERSION, seed, split, index)
    pieces = max(1, knobs.facts - chance.below(2))
    facts = _facts(chance, split, knobs, pieces + knobs.background)
    news, old = facts[:pieces], facts[pieces:]
    quotes = [_quote(chance, facts) for _ in range(knobs.quotes)]
    sentences = _article(chance, news, old, quotes, knobs)
    in_order = [fact for fact in dict.fromkeys(s.fact for s in sentences) if fact and fact in news]
    gold = {
        "world": "newsroom",
        "version": VERSION,
        "facts": [fact.gold() for fact in in_order],
        "background": [fact.gold() for fact in old],
        "quotes": [_content(text.split()) for text in quotes],
    }
    source = "\n".join(f"{sentence.text} ." for sentence in sentences)
    return Example(f"newsroom-{split}-{index}", source, (_summary(chance, in_order),), gold)


def _facts(chance: Chance, split: Split, knobs: Newsroom, count: int) -> list[Fact]:
    """Facts about a small cast, so that names and actions recur; each thing is in one fact only."""
    cast = _people(chance, split, knobs, max(2, count // 2))
    nouns = chance.sample(range(len(words.NOUNS)), count)
    used: set[str] = set()
    facts = []
    for noun in nouns:
        what, thing = _thing(chance, split, knobs, noun, used)
        used |= set(what)
        facts.append(Fact(chance.pick(cast), chance.pick(list(words.ACTIONS)), what, thing))
    return facts


def _people(chance: Chance, split: Split, knobs: Newsroom, count: int) -> list[tuple[str, str]]:
    people: dict[str, tuple[str, str]] = {}
    while len(people) < count:
        last = _name(chance, split, knobs, "ov")
        people.setdefault(last, (_name(chance, split, knobs, "i"), last))
    return list(people.values())


def _name(chance: Chance, split: Split, knobs: Newsroom, kind: str) -> str:
    """One that training knows, or one of as many that only this split knows."""
    pool = SPLITS.index(split) if chance.happens(knobs.unseen) else 0
    return name(chance.below(knobs.names) + knobs.names * pool, kind)


def _thing(chance: Chance, split: Split, knobs: Newsroom, noun: int, used: set[str]) -> tuple[tuple[str, str], str]:
    """``the old mill`` or ``the mill of ravelburg``, of a pair that belongs to this split."""
    while True:
        if chance.happens(0.5):
            other = chance.below(len(words.ADJECTIVES))
            word, form = words.ADJECTIVES[other], "the {1} {0}"
        else:
            word, form = _name(chance, split, knobs, "burg"), "the {0} of {1}"
            other = sum(map(ord, word))
        if (noun + other) % 10 in _TENTHS[split] and word not in used:
            return (words.NOUNS[noun], word), form.format(words.NOUNS[noun], word)


def _article(chance: Chance, news: list[Fact], old: list[Fact], quotes: list[str], knobs: Newsroom) -> list[Sentence]:
    """All that is told, in order: first of all some news, if the lead has any, and some in the second half."""
    *early, late = news
    places = [chance.unit(0.01) for _ in early]
    if early and chance.happens(knobs.lead):
        places[0] = 0.0
    sentences = [Sentence(chance.unit(0.01), quote) for quote in quotes]
    for fact, place in zip(early, places, strict=True):
        sentences += _tellings(chance, fact, place, knobs, words.NEWS, words.AGAIN)
    for fact in old:
        sentences += _tellings(chance, fact, chance.unit(0.01), knobs, words.BACKGROUND, words.BACKGROUND_AGAIN)
    sentences.sort(key=lambda sentence: sentence.place)
    # Between two neighbours after the middle, also when this fact is told again.
    half = min(len(sentences), len(sentences) // 2 + 1)
    at = half + chance.below(len(sentences) - half + 1)
    around = [0.0, *(sentence.place for sentence in sentences), 1.0][at : at + 2]
    sentences += _tellings(chance, late, sum(around) / 2, knobs, words.NEWS, words.AGAIN)
    return sorted(sentences, key=lambda sentence: sentence.place)


def _tellings(
    chance: Chance, fact: Fact, place: float, knobs: Newsroom, forms: Sequence[str], again: Sequence[str]
) -> Iterator[Sentence]:
    """A fact where it is told first, and perhaps once more after that, in another form with another verb."""
    first, second = chance.sample(words.ACTIONS[fact.did], 2)
    yield Sentence(place, fact.told(chance.pick(forms), first), fact)
    if chance.happens(knobs.redundancy):
        yield Sentence(chance.unit(place), fact.told(chance.pick(again), second), fact)


def _quote(chance: Chance, facts: list[Fact]) -> str:
    """Someone of the article has feelings about some thing of it."""
    form = chance.pick(words.QUOTES).replace("{mood}", chance.pick(words.MOODS))
    return Fact(chance.pick(facts).who, "", ("", ""), chance.pick(facts).thing).told(form, "")


def _summary(chance: Chance, news: list[Fact]) -> str:
    """Each piece of news once; a person has both names at first and one later."""
    sentences: list[str] = []
    met: set[str] = set()
    # Only a sentence that begins with its person can go on with "and".
    person_of_last: str | None = None
    for fact in news:
        verb, last = chance.pick(words.ACTIONS[fact.did][:2]), fact.who[1]
        if person_of_last == last and chance.happens(0.5):
            sentences[-1] += " and " + fact.told(words.SAME_PERSON, verb)
            person_of_last = None
            continue
        active = chance.happens(0.7)
        forms = words.SUMMARY_LATER if last in met else words.SUMMARY
        sentences.append(fact.told(forms[0 if active else 1], verb))
        met.add(last)
        person_of_last = last if active else None
    return "\n".join(f"{sentence} ." for sentence in sentences)


def count(gold: dict[str, Any], hypothesis: str) -> Counts:
    """What an output says of the facts, clause by clause.

    A clause ends at a full stop, a newline, a comma or "and"; without a name it is about the person of the clause
    before it. It states a fact if its content words are exactly the fact's: one of its action's verbs, the last name
    (the first may stand with it), both words of the thing. Told with a word of long ago, news is not news. A clause
    with a word twice states its fact twice. Any other clause with a content word is an invention.
    """
    statements = [
        *((fact, "fact") for fact in gold["facts"]),
        *((fact, "background") for fact in gold["background"]),
        *((quote, "quote") for quote in gold["quotes"]),
    ]
    things = {word for fact in (*gold["facts"], *gold["background"]) for word in fact["what"]}
    said: Counter[int] = Counter()
    invented = 0
    for clause in _clauses(hypothesis, things):
        times = [_times(clause, statement, kind) for statement, kind in statements]
        if any(times):
            said[times.index(max(times))] += max(times)
        else:
            invented += 1
    facts = len(gold["facts"])
    return Counts(
        facts=facts,
        omitted=sum(not said[i] for i in range(facts)),
        repeated=sum(max(0, times - 1) for times in said.values()),
        invented=invented,
        strayed=sum(i >= facts and times > 0 for i, times in said.items()),
    )


def _clauses(text: str, things: set[str]) -> Iterator[Counter[str]]:
    """The content words of each clause that has any, verbs by their action, with the person they are about."""
    for sentence in re.split(r"[.,;:!?\n]+", text.lower()):
        person: list[str] = []
        for clause in re.split(r"\band\b", sentence):
            content = _content(clause.split())
            names = [word for word in content if word not in words.VOCABULARY and word not in things]
            verb = next((i for i, word in enumerate(content) if word in words.ACTION_OF), len(content))
            subject = [word for word in content[:verb] if word in names]
            if content and not names:
                content += person
            person = subject or names or person
            if content:
                yield Counter(words.ACTION_OF.get(word, word) for word in content)


def _content(tokens: list[str]) -> list[str]:
    return [token for token in tokens if token in words.OLD or token not in words.FUNCTION]


def _times(clause: Counter[str], statement: Any, kind: str) -> int:
    """How often a clause makes a statement: 0 if it says anything else."""
    said = set(clause)
    if kind == "quote":
        return int(said == set(statement))
    first, last = statement["who"]
    needed = {statement["did"], last, *statement["what"]}
    allowed = needed | {first} | (words.OLD if kind == "background" else set())
    return max(clause[word] for word in needed) if needed <= said <= allowed else 0
