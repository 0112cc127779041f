"""Copying and novelty: the runs of words that an output has from its source, and the n-grams, for
n = 1 to 5, that do not stand there.

Both follow from one number a word: the length of the longest run of the source that begins with it.
Novelty is 100 times novel n-grams over n-grams, each occurrence counted, 0 if an output has no
n-gram of that order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dwindle.data.script import SETTING, words
from dwindle.metrics.kind import Kind
from dwindle.metrics.repetition import per_order
from dwindle.metrics.score import Metric, made, mean, percent
from dwindle.runfiles.outputs import Item

ORDERS = (1, 2, 3, 4, 5)
SPAN = 3
NOVELTY = tuple(Kind(f"novelty{n}", f"novel {n}-grams", 0, "%", 1) for n in ORDERS)
SHARE = Kind("copied-share", "copied words", 0, "%", 1)
LONGEST = Kind("copied-longest", "longest copy", 0, "words", 1)


def run_lengths(text: Sequence[str], source: Sequence[str]) -> list[int]:
    """For each position of ``text``, the longest run of ``source`` that starts there."""
    places: dict[str, list[int]] = {word: [] for word in text}
    for place, word in enumerate(source):
        if word in places:
            places[word].append(place)
    lengths = [0] * len(text)
    # ``runs[p]``: how long text and source agree from the position last seen and from source
    # position p on.
    runs: dict[int, int] = {}
    for i in range(len(text) - 1, -1, -1):
        runs = {p: runs.get(p + 1, 0) + 1 for p in places[text[i]]}
        lengths[i] = max(runs.values(), default=0)
    return lengths


def spans(lengths: Sequence[int], shortest: int = SPAN) -> list[tuple[int, int]]:
    """Copied spans as (start, length), read greedily from the left: the longest run at each place,
    if long enough."""
    found, i = [], 0
    while i < len(lengths):
        if lengths[i] >= shortest:
            found.append((i, lengths[i]))
            i += lengths[i]
        else:
            i += 1
    return found


@dataclass(frozen=True)
class Copied:
    """For each n: novel n-grams, n-grams, and the percentage. Then words inside copied spans,
    words, the percentage, and the longest copied span."""

    needs: frozenset[str] = frozenset({"source"})

    def row(self, item: Item) -> list[float]:
        text = words(item.hypothesis)
        lengths = run_lengths(text, words(item.source or ""))
        row: list[float] = []
        for n in ORDERS:
            total = max(len(text) - n + 1, 0)
            novel = sum(length < n for length in lengths[:total])
            row += [novel, total, 100 * novel / total if total else 0.0]
        inside = [length for _, length in spans(lengths)]
        share = 100 * sum(inside) / len(text) if text else 0.0
        return [*row, sum(inside), len(text), share, max(inside, default=0)]


def metrics(option: str = "") -> list[Metric]:
    """``copied-share``: percentage of copied words; ``copied-longest``: mean longest span."""
    if option not in ("", "micro"):
        raise ValueError(f"copied has no option {option!r}: write copied (macro) or copied:micro")
    settings = made(avg=option or "macro", span=f"{SPAN}+", tok="words", scripts=SETTING)
    first = 3 * len(ORDERS)
    if option:
        return [Metric(SHARE, Copied(), (first, first + 1), percent, settings, option)]
    return [
        Metric(SHARE, Copied(), (first + 2,), mean, settings),
        Metric(LONGEST, Copied(), (first + 3,), mean, settings),
    ]


def novelty(option: str = "") -> list[Metric]:
    """``""`` is macro, the mean over outputs; ``micro`` pools the n-grams of all outputs."""
    return per_order("novelty", Copied(), NOVELTY, option)
