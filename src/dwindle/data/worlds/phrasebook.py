"""The synthetic world ``phrasebook``: sentences of one synthetic language and their translation
into another, accounted for word by word.

The source language puts the verb second and the adjective before its noun; the target language puts
the verb last and the adjective after its noun, where it takes the form of the noun's class. A
source word becomes no word (the article, the object marker), one or two; the two words of a split
verb stand apart, the particle right after the subject. Some words have two translations, and either
is right. Words recur within a sentence and nouns come in long rows, so that a translator loses
count. A verb and the noun after it meet in one split only, so no two splits can share a sentence.

The gold alignment says which target words each source word became.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from dwindle.data.example import Example, Lazy, Split
from dwindle.data.worlds.common import Chance, Counts, name

VERSION = 1
SIZES: dict[Split, int] = {"train": 10_000, "dev": 500, "test": 1_000}
_TENTHS: dict[Split, tuple[int, ...]] = {
    "train": (0, 1, 2, 3, 4, 5, 6, 7),
    "dev": (8,),
    "test": (9,),
}


@dataclass(frozen=True)
class Phrasebook:
    """Knobs of the world: how large its languages are and how long its sentences."""

    nouns: int = 120
    """Nouns of the lexicon."""
    verbs: int = 60
    """Verbs of the lexicon."""
    adjectives: int = 40
    """Adjectives of the lexicon."""
    row: int = 3
    """The most nouns in a row joined by "and"."""
    clauses: int = 1
    """The most clauses in a sentence."""
    recurrence: float = 0.3
    """Probability that a noun or adjective is one that the sentence already has."""

    def __post_init__(self) -> None:
        for knob, low, high in (
            *((part, 20, 5000) for part in ("nouns", "verbs", "adjectives")),
            ("row", 1, 12),
            ("clauses", 1, 8),
        ):
            if not low <= getattr(self, knob) <= high:
                raise ValueError(
                    f"phrasebook.{knob} is {getattr(self, knob)}: give {low} to {high}"
                )
        if not 0 <= self.recurrence <= 1:
            raise ValueError(
                f"phrasebook.recurrence is {self.recurrence}: give a share from 0 to 1"
            )


Option = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Word:
    """A source word and how it may be said. ``forms`` has one entry, for an adjective one for each
    class of noun; an entry lists the translations that are right, each of one or two tokens; a word
    left unsaid has none."""

    source: str
    forms: tuple[tuple[Option, ...], ...]
    number: int = 0
    noun_class: int = 0
    is_split: bool = False


ARTICLE = Word("la", ((),))
OBJECT = Word("ki", ((),))
AND = Word("u", ((("je",),),))
THEN = Word("ke", ((("dat",),),))


@dataclass(frozen=True, eq=False)
class Lexicon:
    """The words of both languages. No token of the target language translates two source words."""

    nouns: tuple[Word, ...]
    verbs: tuple[Word, ...]
    adjectives: tuple[Word, ...]
    adverbs: tuple[Word, ...]
    prepositions: tuple[Word, ...]


@cache
def lexicon(seed: int, knobs: Phrasebook) -> Lexicon:
    chance = Chance("phrasebook lexicon", VERSION, seed)
    return Lexicon(
        nouns=tuple(_noun(chance, i) for i in range(knobs.nouns)),
        verbs=tuple(_verb(chance, i) for i in range(knobs.verbs)),
        adjectives=tuple(_adjective(chance, i) for i in range(knobs.adjectives)),
        adverbs=tuple(Word(name(i, "is"), (_options(chance, i, "il"),)) for i in range(20)),
        prepositions=tuple(Word(name(i, "an"), (_options(chance, i, "ad"),)) for i in range(8)),
    )


def _options(chance: Chance, number: int, *kinds: str) -> tuple[Option, ...]:
    """One translation, or in a quarter of the words two; each has a token of each kind. The target
    words are numbered apart from the source words: nothing can be guessed from how a word is
    spelt."""
    stems = [5000 + 2 * number, 5001 + 2 * number][: 1 + chance.happens(0.25)]
    return tuple(tuple(name(stem, kind) for kind in kinds) for stem in stems)


def _noun(chance: Chance, number: int) -> Word:
    """A fifth of the nouns become two words."""
    kinds = ("ak", "ek") if chance.happens(0.2) else ("ak",)
    return Word(
        name(number, "e"), (_options(chance, number, *kinds),), number, noun_class=chance.below(2)
    )


def _verb(chance: Chance, number: int) -> Word:
    """Three verbs in ten are split: a particle and a stem."""
    is_split = chance.happens(0.3)
    kinds = ("ai", "em") if is_split else ("em",)
    return Word(name(number, "us"), (_options(chance, number, *kinds),), number, is_split=is_split)


def _adjective(chance: Chance, number: int) -> Word:
    """Two forms that differ in their ending."""
    stems = _options(chance, number, "ol", "ul")
    return Word(
        name(number, "a"), tuple(tuple((stem[form],) for stem in stems) for form in (0, 1)), number
    )


class _Writer:
    """Writes one sentence. A reference into it is (source position, which token of the translation,
    None for all)."""

    def __init__(self, chance: Chance, book: Lexicon, knobs: Phrasebook, split: Split) -> None:
        self.chance, self.book, self.knobs, self.split = chance, book, knobs, split
        self.words: list[tuple[Word, tuple[Option, ...], Option]] = []

    def add(self, word: Word, form: int = 0) -> tuple[int, int | None]:
        """Append a source word and choose its translation."""
        options = word.forms[form]
        self.words.append((word, options, self.chance.pick(options) if options else ()))
        return len(self.words) - 1, None

    def pick(self, options: Sequence[Word]) -> Word:
        """One of these words, perhaps one the sentence has had."""
        had = [word for word, _, _ in self.words if word in options]
        return self.chance.pick(
            had if had and self.chance.happens(self.knobs.recurrence) else options
        )

    def clause(self) -> list[tuple[int, int | None]]:
        """Source: subject verb ki object (adverb) (preposition noun). Target: subject (particle)
        (preposition noun) object (adverb) verb. Gives the target's order."""
        subject = self.row(max(1, self.knobs.row - 1))
        verb = self.pick(self.book.verbs)
        at, _ = self.add(verb)
        self.add(OBJECT)
        tenths = {(tenth - verb.number) % 10 for tenth in _TENTHS[self.split]}
        things = self.row(
            self.knobs.row, [noun for noun in self.book.nouns if noun.number % 10 in tenths]
        )
        manner = [self.add(self.chance.pick(self.book.adverbs))] if self.chance.happens(0.4) else []
        where = []
        if self.chance.happens(0.4):
            where = [
                self.add(self.pick(self.book.prepositions)),
                *self.phrase(self.pick(self.book.nouns)),
            ]
        if verb.is_split:
            return [*subject, (at, 0), *where, *things, *manner, (at, 1)]
        return [*subject, *where, *things, *manner, (at, None)]

    def row(self, most: int, first: Sequence[Word] | None = None) -> list[tuple[int, int | None]]:
        """Up to ``most`` noun phrases joined by "and", beginning with a noun of ``first``."""
        order = self.phrase(self.pick(first or self.book.nouns))
        for _ in range(self.chance.below(most)):
            order += [self.add(AND), *self.phrase(self.pick(self.book.nouns))]
        return order

    def phrase(self, noun: Word) -> list[tuple[int, int | None]]:
        """Source: (la) (adjective) noun. Target: noun (adjective)."""
        if self.chance.happens(0.5):
            self.add(ARTICLE)
        adjective = self.pick(self.book.adjectives) if self.chance.happens(0.5) else None
        after = [self.add(adjective, noun.noun_class)] if adjective else []
        return [self.add(noun), *after]


def examples(
    split: Split, count: int | None, seed: int, knobs: Phrasebook | None = None
) -> Sequence[Example]:
    """The first ``count`` examples of a split. Example i does not depend on how many there are."""
    size = SIZES[split] if count is None else count
    return Lazy(partial(_example, split, seed, knobs or Phrasebook()), range(size))


def _example(split: Split, seed: int, knobs: Phrasebook, index: int) -> Example:
    chance = Chance("phrasebook", VERSION, seed, split, index)
    writer = _Writer(chance, lexicon(seed, knobs), knobs, split)
    order = writer.clause()
    for _ in range(chance.below(knobs.clauses)):
        order += [writer.add(THEN), *writer.clause()]
    target: list[str] = []
    became: dict[int, list[int]] = {}
    for at, part in order:
        tokens = writer.words[at][2]
        for token in tokens if part is None else tokens[part : part + 1]:
            became.setdefault(at, []).append(len(target))
            target.append(token)
    alignment = [
        {
            "word": word.source,
            "at": at,
            "to": became.get(at, []),
            "options": [list(option) for option in options],
        }
        for at, (word, options, _) in enumerate(writer.words)
    ]
    gold = {"world": "phrasebook", "version": VERSION, "alignment": alignment}
    source = " ".join(word.source for word, _, _ in writer.words)
    return Example(f"phrasebook-{split}-{index}", source, (" ".join(target),), gold)


def count(gold: dict[str, Any], hypothesis: str) -> Counts:
    """The words of the source that an output has, whatever their order.

    A source word that stands n times is to be translated n times. It is omitted as often as a whole
    translation is missing and repeated as often as there is one too many. Half a translation where
    a whole one is missing is an invention, and so is every token that translates no word of the
    source.
    """
    tokens = Counter(hypothesis.lower().split())
    needed = Counter(_key(entry) for entry in gold["alignment"] if entry["options"])
    omitted = repeated = invented = 0
    for options, times in needed.items():
        held = [[tokens.pop(token, 0) for token in option] for option in options]
        whole, begun = sum(map(min, held)), sum(map(max, held))
        omitted += max(0, times - whole)
        repeated += max(0, begun - times) if whole >= times else 0
        invented += begun - whole if whole < times else 0
    return Counts(needed.total(), omitted, repeated, invented + tokens.total())


def _key(entry: dict[str, Any]) -> tuple[Option, ...]:
    return tuple(tuple(option) for option in entry["options"])
