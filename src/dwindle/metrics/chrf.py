"""chrF: the F-score of character n-grams (Popović, 2015), as `sacrebleu` counts it: orders 1 to 6
without blanks, recall counting twice, the reference with the best score where there are several.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from dwindle.metrics.kind import Kind
from dwindle.metrics.score import Array, Count, Metric, made
from dwindle.runfiles.outputs import Item

KIND = Kind("chrf", "chrF", 1)
_ORDER = 6
_BETA = 2
_LONG = 20_000
"""Characters from which n-grams are counted by sorting numbers, in a tenth of the time."""


@dataclass(frozen=True)
class Chrf:
    """Row of eighteen counts: n-grams of output, of reference, and in both, for orders 1..6."""

    needs: frozenset[str] = frozenset({"references"})

    def row(self, item: Item) -> list[float]:
        if max(map(len, (item.hypothesis, *item.references))) > _LONG:
            rows = [_matched_long(item.hypothesis, reference) for reference in item.references]
            return max(rows, key=lambda row: float(chrf(np.array(row), 1)))
        own = _ngrams(item.hypothesis)
        rows = [_matched(own, _ngrams(reference)) for reference in item.references]
        return max(rows, key=lambda row: float(chrf(np.array(row), 1)))


def chrf(sums: Array, items: Count) -> Array:
    """chrF (...) of summed statistics (..., 18), for all resamples at once. Orders that one side
    lacks do not count."""
    own, reference, both = (sums[..., k * _ORDER : (k + 1) * _ORDER] for k in range(3))
    usable = (own > 0) & (reference > 0)
    orders = np.maximum(usable.sum(-1), 1)
    precision = (
        np.divide(both, own, out=np.zeros_like(sums[..., :_ORDER]), where=usable).sum(-1) / orders
    )
    recall = (
        np.divide(both, reference, out=np.zeros_like(sums[..., :_ORDER]), where=usable).sum(-1)
        / orders
    )
    weighed = _BETA**2 * precision + recall
    products = (1 + _BETA**2) * precision * recall
    score: Array = 100 * np.divide(products, weighed, out=np.zeros_like(weighed), where=weighed > 0)
    return score


def metrics(option: str = "") -> list[Metric]:
    if option:
        raise ValueError(f"chrf has no option {option!r}: write chrf")
    settings = made(case="mixed", nc=_ORDER, nw=0, space="no", beta=_BETA)
    return [Metric(KIND, Chrf(), tuple(range(3 * _ORDER)), chrf, settings)]


def _ngrams(text: str) -> list[Counter[str]]:
    letters = "".join(text.split())
    return [
        Counter(letters[k : k + n] for k in range(len(letters) - n + 1))
        for n in range(1, _ORDER + 1)
    ]


def _matched(own: list[Counter[str]], reference: list[Counter[str]]) -> list[float]:
    """The counts of one pair. An order that the reference lacks cannot be missed."""
    sums = [float(o.total() if r else 0) for o, r in zip(own, reference, strict=True)]
    return [
        *sums,
        *(float(r.total()) for r in reference),
        *(float((o & r).total()) for o, r in zip(own, reference, strict=True)),
    ]


def _matched_long(hypothesis: str, reference: str) -> list[float]:
    """`_matched` of two long texts. An n-gram is a number: that of its first n - 1 characters and
    that of its last one, numbered anew for each n."""
    texts = ["".join(text.split()) for text in (hypothesis, reference)]
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    _, letters = np.unique(codes, return_inverse=True)
    sides = np.split(letters.astype(np.int64), [len(texts[0])])
    grams, alphabet = sides, int(letters.max(initial=0)) + 1
    totals: list[tuple[int, int, int]] = []
    for n in range(1, _ORDER + 1):
        if n > 1:
            grams = [g[:-1] * alphabet + s[n - 1 :] for g, s in zip(grams, sides, strict=True)]
        kinds, numbers = np.unique(np.concatenate(grams), return_inverse=True)
        grams = np.split(numbers, [len(grams[0])])
        mine, theirs = (np.bincount(g, minlength=len(kinds)) for g in grams)
        totals.append(
            (
                len(grams[0]) if len(grams[1]) else 0,
                len(grams[1]),
                int(np.minimum(mine, theirs).sum()),
            )
        )
    return [float(number) for column in zip(*totals, strict=True) for number in column]
