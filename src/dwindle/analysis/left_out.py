"""Parts of a source that an output left out, as coverage tells them, and how reliable that is.

A part is a sentence, or a word of a source of one sentence. Its *share* is the mean coverage of its
tokens over the mean of all tokens: 1 is average, 0 was never looked at. A part that the model was
not given, since the source was cut, or that it has no token for, has none. Where the truth is
known, in the synthetic worlds, shares are judged by AUROC, next to their rivals: raw attention,
lexical overlap, and the listeners where outputs were audited.

Attention shows what was used, not whether it was told correctly: a sentence with a small share was
hardly used, but one with a large share may still be told wrongly. Reads coverage and texts; loads
no model.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dwindle.auditing.roc import auroc
from dwindle.data.script import sentence_spans, word_spans, words
from dwindle.data.worlds import newsroom
from dwindle.models.token_offsets import bare
from dwindle.runfiles.outputs import Item

Span = tuple[int, int]
Array = npt.NDArray[np.floating[Any]]
Places = Sequence[int] | npt.NDArray[np.int64]

RESAMPLES = 500
THRESHOLD = 0.5
"""The share at or below which a page marks a sentence as left out. On newsroom such a mark was
always right, and found 71 % of what was left out (docs/REPORT.md)."""


@dataclass(frozen=True)
class JudgedPart:
    """One part of one source of a synthetic world: whether the output leaves it out, and what each
    method gives it."""

    item: str
    left_out: bool
    wanted: bool
    """True if the reference states it: leaving it out is a fault."""
    misreported: bool
    """True if the output mentions the entity but states a different fact about it."""
    scores: dict[str, float]
    """By method; low is left out."""


@dataclass(frozen=True)
class Verdict:
    """The quality of one method that tells the parts left out.

    The interval is a bootstrap over items.
    """

    method: str
    parts: int
    left_out: int
    auroc: float
    low: float
    high: float
    threshold: float
    """At or below it a part is called left out: chosen on half of the items, and the rest is
    measured on the other."""
    precision: float
    recall: float


def units(source: str, places: Places = (), tokens: Sequence[str] = ()) -> tuple[str, list[Span]]:
    """The parts of a source, with their noun: sentences, or the words of a single sentence.

    ``places`` and ``tokens`` are what a model read, (S,). Words that touch and that it read as one
    token are one part: where every character is a word, a token is often several.
    """
    spans = sentence_spans(source)
    if len(spans) > 1:
        return "sentences", spans
    return "words", _joined(_with_signs(source, word_spans(source)), places, tokens)


def _joined(words: Sequence[Span], places: Places, tokens: Sequence[str]) -> list[Span]:
    """Words in which a token begins, each with those that the token goes on in. Of a token that is
    not known, only where the next one begins."""
    begins = sorted({int(at) for at in places if at >= 0})
    ends = dict(pairwise(begins))
    for at, token in zip(places, tokens, strict=False):
        if at >= 0:
            ends[int(at)] = int(at) + len(bare(token))
    parts: list[Span] = []
    end = 0
    for first, last in words:
        inside = [ends.get(at, at) for at in begins[bisect_left(begins, first) :] if at < last]
        if parts and first < end and not inside and parts[-1][1] == first:
            parts[-1] = (parts[-1][0], last)
        else:
            parts.append((first, last))
        end = max([end, *inside])
    return parts


def _with_signs(source: str, spans: Sequence[Span]) -> list[Span]:
    """Words with the signs that touch them, so that every sign beside a word belongs to one."""
    wider: list[Span] = []
    for n, (first, last) in enumerate(spans):
        free = wider[-1][1] if wider else 0
        while first > free and not source[first - 1].isspace():
            first -= 1
        limit = spans[n + 1][0] if n + 1 < len(spans) else len(source)
        while last < limit and not source[last].isspace():
            last += 1
        wider.append((first, last))
    return wider


def shares(coverage: Array, places: Places, parts: Sequence[Span]) -> list[float | None]:
    """The share of each part, from coverage (S,) and the place of each position (S,); None for a
    part without one."""
    at = np.asarray(places)
    real = at >= 0
    mean = float(coverage[real].mean()) if real.any() else 0.0
    found: list[float | None] = []
    for first, last in parts:
        inside = real & (at >= first) & (at < last)
        found.append(float(coverage[inside].mean()) / mean if inside.any() and mean else None)
    return found


def overlap(source: str, parts: Sequence[Span], output: str) -> list[float]:
    """Share of each part's words that the output has; a word that many parts have counts less."""
    texts = [set(words(source[first:last])) for first, last in parts]
    among = Counter(word for text in texts for word in text)
    said = set(words(output))
    weights = [{word: 1 / among[word] for word in text} for text in texts]
    return [
        sum(w for word, w in of.items() if word in said) / (sum(of.values()) or 1) for of in weights
    ]


def judged(
    item: Item,
    covered: dict[str, Array],
    places: Places,
    marks: Sequence[float | None] | None = None,
) -> list[JudgedPart]:
    """The parts of one item of a synthetic world, with the truth and the scores; without those that
    are in doubt.

    Args:
        covered: by method, what each position got, (S,).
        places: (S,) of positions in the source.
        marks: the listeners' score of each character, if the outputs were audited.
    """
    gold, source = item.extra["gold"], item.source or ""
    known = _KNOWN.get(gold.get("world"))
    if known is None:
        raise ValueError(
            f"it is not known which part of {gold.get('world')!r} says what: take "
            f"{', '.join(_KNOWN)}"
        )
    spans, truth = known(gold, source, item.hypothesis)
    told: dict[str, Sequence[float | None]] = {
        name: shares(each, places, spans) for name, each in covered.items()
    }
    told["lexical overlap"] = overlap(source, spans, item.hypothesis)
    if marks is not None:
        told["listeners"] = [_heard(marks[first:last]) for first, last in spans]
    scores = [dict(zip(told, row, strict=True)) for row in zip(*told.values(), strict=True)]
    return [
        JudgedPart(
            item.id, left, wanted, misreported, {k: v for k, v in row.items() if v is not None}
        )
        for (left, wanted, misreported), row in zip(truth, scores, strict=True)
        if left is not None and None not in row.values()
    ]


def _heard(marks: Sequence[float | None]) -> float | None:
    """Minus the mean score of a part's characters; None where nothing was scored."""
    known = [mark for mark in marks if mark is not None]
    return -sum(known) / len(known) if known else None


Truth = list[tuple[bool | None, bool, bool]]
"""The truth about each part: left out or not (None if in doubt), wanted, misreported."""


def _newsroom(gold: dict[str, Any], source: str, output: str) -> tuple[list[Span], Truth]:
    """Every sentence of an article makes one statement, which the output makes or leaves out."""
    spans = sentence_spans(source)
    statements = [
        (kind, k) for kind in ("facts", "background", "quotes") for k in range(len(gold[kind]))
    ]
    said = {statement: _says(gold, output, *statement) for statement in statements}
    truth: Truth = []
    for first, last in spans:
        told = [
            statement for statement in statements if _says(gold, source[first:last], *statement)
        ]
        left = not any(said[statement] for statement in told) if told else None
        wanted = any(kind == "facts" for kind, _ in told)
        named = any(_names(gold, output, *statement) for statement in told)
        truth.append((left, wanted, bool(left) and named))
    return spans, truth


def _says(gold: dict[str, Any], text: str, kind: str, number: int) -> bool:
    """True if a text makes one statement of the gold. The world's own count decides, with every
    other statement put out of the way."""
    one = gold[kind][number]
    others = [fact for fact in (*gold["facts"], *gold["background"]) if fact != one]
    if kind == "facts":
        return (
            newsroom.count({"facts": [one], "background": others, "quotes": []}, text).omitted == 0
        )
    alone = (
        {"background": [one], "quotes": []}
        if kind == "background"
        else {"background": [], "quotes": [one]}
    )
    return newsroom.count({"facts": others, **alone}, text).strayed > 0


def _names(gold: dict[str, Any], text: str, kind: str, number: int) -> bool:
    """True if a line of the text has both words of the thing that a fact is about."""
    return kind != "quotes" and any(
        set(gold[kind][number]["what"]) <= set(line.split()) for line in text.lower().split("\n")
    )


def _phrasebook(gold: dict[str, Any], source: str, output: str) -> tuple[list[Span], Truth]:
    """Every source word is a part; it is left out when the output has no whole translation of it. A
    word that stands several times and is translated fewer times is in doubt."""
    tokens = Counter(output.lower().split())
    _, spans = units(source)
    times = Counter(str(entry["options"]) for entry in gold["alignment"])
    truth: Truth = []
    for entry in gold["alignment"]:
        whole = sum(min(tokens[token] for token in option) for option in entry["options"])
        doubt = not entry["options"] or 0 < whole < times[str(entry["options"])]
        truth.append((None if doubt else whole == 0, True, False))
    return spans, truth


_KNOWN = {"newsroom": _newsroom, "phrasebook": _phrasebook}


def verdicts(parts: Sequence[JudgedPart], seed: int = 1) -> list[Verdict]:
    """Each method on these parts."""
    left = np.array([part.left_out for part in parts])
    if not left.any() or left.all():
        raise ValueError(
            f"{int(left.sum())} of {len(left)} parts are left out: both kinds are needed to tell "
            "them apart"
        )
    names = {item: k for k, item in enumerate(dict.fromkeys(part.item for part in parts))}
    items = np.array([names[part.item] for part in parts])
    return [
        _verdict(method, left, np.array([part.scores[method] for part in parts]), items, seed)
        for method in parts[0].scores
    ]


def _verdict(
    method: str, left: npt.NDArray[np.bool_], scores: Array, items: npt.NDArray[np.int64], seed: int
) -> Verdict:
    rng = np.random.default_rng(seed)
    count = int(items.max()) + 1
    drawn = []
    for _ in range(RESAMPLES):
        weights = np.bincount(rng.integers(count, size=count), minlength=count)[items]
        drawn.append(auroc(left, -scores, weights))
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    first = rng.permutation(count)[items] < count / 2  # items are halved, not parts
    at = best_threshold(left[first], scores[first])
    called, true = scores[~first] <= at, left[~first]
    hits = int((called & true).sum())
    precision, recall = hits / max(int(called.sum()), 1), hits / max(int(true.sum()), 1)
    whole = auroc(left, -scores)
    return Verdict(
        method, len(left), int(left.sum()), whole, float(low), float(high), at, precision, recall
    )


def best_threshold(left: npt.NDArray[np.bool_], scores: Array) -> float:
    """The threshold at which calls of left-out parts are best balanced (Youden's J)."""
    values, place = np.unique(scores, return_inverse=True)
    hits = np.cumsum(np.bincount(place, left, len(values))) / max(left.sum(), 1)
    alarms = np.cumsum(np.bincount(place, ~left, len(values))) / max((~left).sum(), 1)
    best = int(np.argmax(hits - alarms))
    # halfway to the next score: the best guess for other items
    return float(values[best : best + 2].mean())
