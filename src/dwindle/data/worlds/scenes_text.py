"""The words of the world ``scenes``: paragraphs, and what they say of a picture, counted exactly.

A thing is introduced by an article and its noun phrase (``a large striped red star``) and referred
to by ``the red star`` or ``it``: only introductions are statements. A thing is known by its colour
and shape; a wrong size or pattern is no invention.
"""

from collections.abc import Sequence
from typing import Any

from dwindle.data.worlds.common import Chance, Counts

VERSION = 1
SHAPES = ("circle", "square", "triangle", "star", "cross", "ring", "diamond", "hexagon")
COLOURS = ("red", "blue", "green", "yellow", "orange", "purple", "pink", "white", "black", "brown")
PATTERNS = ("plain", "striped", "dotted")
GROUNDS = ("grass", "sand", "snow", "water", "stone")
_SIZES = ("large", "small")
_ARTICLES = ("a", "an")
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_OPENINGS = (
    "there are {n} things on {ground} .",
    "the picture shows {n} things on {ground} .",
    "this is {ground} with {n} things on it .",
)
_PLACED = ("{a} is {place} .", "{place} there is {a} .", "one can see {a} {place} .")
_RELATED = (
    "{relation} {it} there is {a} .",
    "{a} is {relation} {it} .",
    "next comes {a} {relation} {it} .",
)
_ROWS, _COLUMNS = ("at the top", "", "at the bottom"), ("left", "", "right")
_THIRD = 128 / 3


def paragraph(
    chance: Chance, things: Sequence[dict[str, Any]], ground: str
) -> tuple[str, list[int | None]]:
    """A sentence for the picture and one for each thing, in order; and each word's thing."""
    sentences = [chance.pick(_OPENINGS).format(n=_NUMBERS[len(things)], ground=ground)]
    for i, thing in enumerate(things):
        if i == 0 or chance.happens(0.4):
            sentences.append(
                chance.pick(_PLACED).format(a=_phrase(chance, thing), place=_place(thing))
            )
        else:
            last = things[i - 1]
            it = chance.pick(["it", f"the {last['colour']} {last['shape']}"])
            form = chance.pick(_RELATED)
            sentences.append(
                form.format(a=_phrase(chance, thing), relation=_relation(thing, last), it=it)
            )
    spoken: list[int | None] = [None] * len(sentences[0].split())
    for i, sentence in enumerate(sentences[1:]):
        spoken += [i] * len(sentence.split())
    return "\n".join(sentences), spoken


def _phrase(chance: Chance, thing: dict[str, Any]) -> str:
    words = [thing["size"]] if chance.happens(0.6) else []
    words += [thing["pattern"]] if thing["pattern"] != "plain" else []
    words += [thing["colour"], thing["shape"]]
    return f"{'an' if words[0] == 'orange' else 'a'} {' '.join(words)}"


def _place(thing: dict[str, Any]) -> str:
    row, column = _ROWS[int(thing["at"][1] / _THIRD)], _COLUMNS[int(thing["at"][0] / _THIRD)]
    if row and column:
        return f"{row} {column}"
    return row or (f"on the {column}" if column else "in the middle")


def _relation(thing: dict[str, Any], to: dict[str, Any]) -> str:
    right, down = (a - b for a, b in zip(thing["at"], to["at"], strict=True))
    if abs(right) > abs(down):
        return "to the right of" if right > 0 else "to the left of"
    return "below" if down > 0 else "above"


def statements(text: str) -> list[tuple[str, str]]:
    """The (colour, shape) pairs that a text introduces, in order. Any text is read; what is no
    introduction is not counted."""
    words, found = text.split(), []
    for start, word in enumerate(words):
        if word in _ARTICLES:
            end = start + 1
            while end < len(words) and words[end] in (*_SIZES, *PATTERNS, *COLOURS):
                end += 1
            if end < len(words) and words[end] in SHAPES and words[end - 1] in COLOURS:
                found.append((words[end - 1], words[end]))
    return found


def count(gold: dict[str, Any], hypothesis: str) -> Counts:
    """The things of a picture are its facts."""
    things, specks = (
        {(thing["colour"], thing["shape"]) for thing in gold[kind]} for kind in ("things", "specks")
    )
    said = statements(hypothesis)
    true = [pair for pair in said if pair in things | specks]
    return Counts(
        facts=len(things),
        omitted=len(things - set(said)),
        repeated=len(true) - len(set(true)),
        invented=len(said) - len(true),
        strayed=len(specks & set(said)),
    )
