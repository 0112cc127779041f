"""The task of outputs, told from their texts: it decides the numbers and sections of a report.

A translation has a source and an output in different scripts or languages, of about the same
length. Nothing here knows a language: two texts of one language share words (names and numbers
aside), two of different languages hardly any.
"""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Literal, get_args

from dwindle.data.script import words
from dwindle.runfiles.outputs import Item

Task = Literal["translation", "text"]
"""``text`` is everything else: summaries, captions, answers, transcripts."""
TASKS: tuple[Task, ...] = get_args(Task)

LOOKED_AT = 200
"""Items that are looked at, evenly spaced."""
SHARED = 0.35
"""Of an output's words, the share that its source has too: below it, the two are of different
languages. The median is 0.08 in news from English to French, 0.10 to German, and 0.90 in the
highlights of CNN/DM."""
SHORTEST, LONGEST = 0.4, 2.5
"""Words of an output for each word of its source, between which it can be a translation."""
_MORE_THAN_HALF = 0.5
_LETTERS = 2000


def task_of(items: Sequence[Item]) -> Task:
    """The task of these items; ``text`` where a source is missing."""
    some = items[:: max(1, len(items) // LOOKED_AT)]
    pairs = [
        (item.source, item.hypothesis) for item in some if item.source and item.hypothesis.strip()
    ]
    if len(pairs) < _MORE_THAN_HALF * len(some) or not pairs:
        return "text"
    if script("".join(s for s, _ in pairs)) != script("".join(o for _, o in pairs)):
        return "translation"
    both = [(set(words(source)), words(output), len(words(source))) for source, output in pairs]
    shared = median(sum(word in known for word in own) / max(len(own), 1) for known, own, _ in both)
    ratio = median(len(own) / max(length, 1) for _, own, length in both)
    return "translation" if shared < SHARED and SHORTEST < ratio < LONGEST else "text"


def script(text: str) -> str:
    """The script that most letters of a text are of, such as LATIN or CJK."""
    letters = (character for character in text[: 20 * _LETTERS] if character.isalpha())
    counts = Counter(
        unicodedata.name(one, "?").split()[0]
        for one, _ in zip(letters, range(_LETTERS), strict=False)
    )
    return counts.most_common(1)[0][0] if counts else ""
