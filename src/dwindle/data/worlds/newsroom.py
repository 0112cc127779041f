"""The synthetic world ``newsroom``: articles of facts, and summaries of the salient ones.

A fact is who did what to which thing. An article tells its news, tells some of it again with
another verb, and is padded with what happened long ago and with quotes. Nothing in the form of a
sentence says that it repeats another: one has to know what was said. It often opens with news but
always has some in its second half, so a reader of the lead alone leaves something out. The summary
states each piece of news once, in the order of the article unless it is shuffled, two by one person
at times in one sentence. Names are made of syllables; in dev and test some were never seen in
training and can only be copied. A noun and its adjective (or place) meet in one split only, so no
two splits can share an article.

Tokens with spaces between, a newline between sentences.
"""

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dwindle.data.example import SPLITS, Example, Lazy, Split
from dwindle.data.worlds import newsroom_words as words
from dwindle.data.worlds.common import NAMES, Chance, Counts, name

VERSION = 1
SIZES: dict[Split, int] = {"train": 10_000, "dev": 500, "test": 1_000}
# Which tenths of all pairs of a noun and its adjective or place, by the sum of their numbers, are
# whose.
_TENTHS: dict[Split, tuple[int, ...]] = {
    "train": (0, 1, 2, 3, 4, 5, 6, 7),
    "dev": (8,),
    "test": (9,),
}


@dataclass(frozen=True)
class Newsroom:
    """Knobs of the world: how long and how hard its articles are."""

    facts: int = 3
    """Largest number of news facts in an article; the smallest is one less, but at least one."""
    background: int = 2
    """Number of old facts in an article, which a summary must not tell."""
    quotes: int = 1
    """Number of quotes in an article."""
    redundancy: float = 0.4
    """Probability that a fact is told a second time, in other words."""
    lead: float = 0.7
    """Probability that an article opens with news."""
    paraphrase: float = 0.2
    """Probability that a summary uses its own verb instead of the article's."""
    shuffled: bool = False
    """A summary tells its news in any order, so that no sentence hints at the next."""
    bare: bool = False
    """Every fact has a person of its own, and news is told in the same few words by article and
    summary, which adds who says so: a summary is then written by copying, and what was said can be
    told from where it was looked at."""
    names: int = 400
    """Number of first names, of last names and of places that occur in training."""
    unseen: float = 0.3
    """Share of the names in dev and test that never occur in training."""

    def __post_init__(self) -> None:
        for knob, low, high in (
            ("facts", 1, 12),
            ("background", 0, 12),
            ("quotes", 0, 12),
            ("names", 50, NAMES // 3),
        ):
            if not low <= getattr(self, knob) <= high:
                raise ValueError(f"newsroom.{knob} is {getattr(self, knob)}: give {low} to {high}")
        for knob in ("redundancy", "lead", "paraphrase", "unseen"):
            if not 0 <= getattr(self, knob) <= 1:
                raise ValueError(
                    f"newsroom.{knob} is {getattr(self, knob)}: give a share from 0 to 1"
                )


@dataclass(frozen=True)
class Fact:
    """A person (first, last name) did something (an action) to a thing (its two content words)."""

    who: tuple[str, str]
    did: str
    what: tuple[str, str]
    thing: str
    """The thing as it is written."""

    def told(self, form: str, verb: str, met: Container[str]) -> str:
        """In a form; a person who was met before has only the last name."""
        who = self.who[1] if self.who[1] in met else " ".join(self.who)
        return form.format(who=who, verb=verb, thing=self.thing, first=self.who[0])

    def gold(self) -> dict[str, Any]:
        return {"who": list(self.who), "did": self.did, "what": list(self.what)}


@dataclass(frozen=True)
class Sentence:
    """A sentence of an article before its names are written: its place in [0, 1), its content."""

    place: float
    form: str
    fact: Fact
    verb: str = ""
    """None in a quote, which has no fact but takes its person and its thing from one."""


def examples(
    split: Split, count: int | None, seed: int, knobs: Newsroom | None = None
) -> Sequence[Example]:
    """The first ``count`` examples of a split. Example i does not depend on how many there are."""
    size = SIZES[split] if count is None else count
    return Lazy(partial(_example, split, seed, knobs or Newsroom()), range(size))


def _example(split: Split, seed: int, knobs: Newsroom, index: int) -> Example:
    chance = Chance("newsroom", VERSION, seed, split, index)
    pieces = max(1, knobs.facts - chance.below(2))
    facts = _facts(chance, split, knobs, pieces + knobs.background)
    news, old = facts[:pieces], facts[pieces:]
    sentences = _article(chance, news, old, knobs)
    texts = _written(chance, sentences)
    verbs: dict[Fact, str] = {}
    for sentence in sentences:
        if sentence.verb and sentence.fact in news:
            verbs.setdefault(sentence.fact, sentence.verb)
    gold = {
        "world": "newsroom",
        "version": VERSION,
        "facts": [fact.gold() for fact in verbs],
        "background": [fact.gold() for fact in old],
        "quotes": [
            _content(text.split()) for s, text in zip(sentences, texts, strict=True) if not s.verb
        ],
    }
    source = "\n".join(f"{text} ." for text in texts)
    return Example(f"newsroom-{split}-{index}", source, (_summary(chance, verbs, knobs),), gold)


def _facts(chance: Chance, split: Split, knobs: Newsroom, count: int) -> list[Fact]:
    """Facts about a small cast, so that names and actions recur; each thing is in one fact only."""
    cast = _people(chance, split, knobs, count if knobs.bare else max(2, count // 2))
    nouns = chance.sample(range(len(words.NOUNS)), count)
    used: set[str] = set()
    facts = []
    for i, noun in enumerate(nouns):
        what, thing = _thing(chance, split, knobs, noun, used)
        used |= set(what)
        who = cast[i] if knobs.bare else chance.pick(cast)
        facts.append(Fact(who, chance.pick(list(words.ACTIONS)), what, thing))
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


def _thing(
    chance: Chance, split: Split, knobs: Newsroom, noun: int, used: set[str]
) -> tuple[tuple[str, str], str]:
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


def _article(chance: Chance, news: list[Fact], old: list[Fact], knobs: Newsroom) -> list[Sentence]:
    """All that is told, in order: first some news, if the lead has any, some in the second half."""
    *early, late = news
    places = [chance.unit(0.01) for _ in early]
    if early and chance.happens(knobs.lead):
        places[0] = 0.0
    sentences = [_quote(chance, [*news, *old]) for _ in range(knobs.quotes)]
    for fact, place in zip(early, places, strict=True):
        sentences += _tellings(chance, fact, place, knobs)
    for fact in old:
        sentences += _tellings(chance, fact, chance.unit(0.01), knobs, is_old=True)
    sentences.sort(key=lambda sentence: sentence.place)
    # Between two neighbours after the middle, also when this fact is told again.
    half = min(len(sentences), len(sentences) // 2 + 1)
    at = half + chance.below(len(sentences) - half + 1)
    around = [0.0, *(sentence.place for sentence in sentences), 1.0][at : at + 2]
    sentences += _tellings(chance, late, sum(around) / 2, knobs)
    return sorted(sentences, key=lambda sentence: sentence.place)


def _tellings(
    chance: Chance, fact: Fact, place: float, knobs: Newsroom, is_old: bool = False
) -> Iterator[Sentence]:
    """A fact where it is told first, and perhaps once more after that with another verb."""
    times = 1 + chance.happens(knobs.redundancy)
    for verb in chance.sample(words.ACTIONS[fact.did], times):
        if is_old:
            form = chance.pick(words.BACKGROUND).replace("{0}", chance.pick(words.TELLINGS))
        else:
            form = words.SUMMARY[0] if knobs.bare else chance.pick(words.NEWS)
        yield Sentence(place, form, fact, verb)
        place = chance.unit(place)


def _quote(chance: Chance, facts: list[Fact]) -> Sentence:
    """Someone of the article has feelings about some thing of it."""
    form = chance.pick(words.QUOTES).replace("{mood}", chance.pick(words.MOODS))
    return Sentence(
        chance.unit(0.01), form, replace(chance.pick(facts), thing=chance.pick(facts).thing)
    )


def _written(chance: Chance, sentences: list[Sentence]) -> list[str]:
    """The texts: who comes up for the first time has both names, later perhaps only the last."""
    met: set[str] = set()
    texts = []
    for sentence in sentences:
        texts.append(
            sentence.fact.told(sentence.form, sentence.verb, met if chance.happens(0.5) else ())
        )
        met.add(sentence.fact.who[1])
    return texts


def _summary(chance: Chance, verbs: dict[Fact, str], knobs: Newsroom) -> str:
    """Each piece of news once; a person has both names at first and one later. ``verbs`` has the
    news in their order, each with the verb that it was first told with."""
    news = list(verbs)
    if knobs.shuffled:
        news = chance.sample(news, len(news))
    sentences: list[str] = []
    met: set[str] = set()
    # Only a sentence that begins with its person can go on with "and".
    person_of_last: str | None = None
    for fact in news:
        own = chance.pick(words.ACTIONS[fact.did][:2])
        verb, last = own if chance.happens(knobs.paraphrase) else verbs[fact], fact.who[1]
        if person_of_last == last and chance.happens(0.5):
            sentences[-1] += " and " + fact.told(words.SAME_PERSON, verb, met)
            person_of_last = None
            continue
        active = knobs.bare or chance.happens(0.7)
        form = words.BARE if knobs.bare else words.SUMMARY[0 if active else 1]
        sentences.append(fact.told(form, verb, met))
        met.add(last)
        person_of_last = last if active else None
    return "\n".join(f"{sentence} ." for sentence in sentences)


def count(gold: dict[str, Any], hypothesis: str) -> Counts:
    """The facts that an output tells, clause by clause.

    A clause ends at a full stop, a newline, a comma or "and"; without a name it is about the person
    of the clause before it. It states a fact if its content words are exactly the fact's: one of
    its action's verbs, the last name (the first may stand with it), both words of the thing. Told
    with a word of long ago, news is not news. A clause with a word twice states its fact twice. Any
    other clause with a content word is an invention.
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
    """The content words of each clause that has any, verbs by action, with their person."""
    for sentence in re.split(r"[.,;:!?\n]+", text.lower()):
        person: list[str] = []
        for clause in re.split(r"\band\b", sentence):
            content = _content(clause.split())
            names = [
                word for word in content if word not in words.VOCABULARY and word not in things
            ]
            verb = next(
                (i for i, word in enumerate(content) if word in words.ACTION_OF), len(content)
            )
            subject = [word for word in content[:verb] if word in names]
            if content and not names:
                content += person
            person = subject or names or person
            if content:
                yield Counter(words.ACTION_OF.get(word, word) for word in content)


def _content(tokens: list[str]) -> list[str]:
    return [token for token in tokens if token in words.OLD or token not in words.FUNCTION]


def _times(clause: Counter[str], statement: Any, kind: str) -> int:
    """Number of times that a clause makes a statement; 0 if it says anything else."""
    said = set(clause)
    if kind == "quote":
        return int(said == set(statement))
    first, last = statement["who"]
    needed = {statement["did"], last, *statement["what"]}
    allowed = needed | {first} | (words.OLD if kind == "background" else set())
    return max(clause[word] for word in needed) if needed <= said <= allowed else 0
