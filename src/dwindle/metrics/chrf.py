"""chrF: the F-score of character n-grams (Popović, 2015), as `sacrebleu` counts it: orders 1 to 6 without blanks,
recall counting twice, the reference with the best score where there are several.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from dwindle.folder.outputs import Item
from dwindle.metrics.kind import Kind
from dwindle.metrics.score import Array, Count, Metric
from dwindle.metrics.signature import made

KIND = Kind("chrf", "chrF", 1)
_ORDER = 6
_BETA = 2


@dataclass(frozen=True)
class Chrf:
    """Row of eighteen counts: n-grams of the output, of the reference, and in both, each for orders 1..6."""

    needs: frozenset[str] = frozenset({"references"})

    def row(self, item: Item) -> list[float]:
        own = _ngrams(item.hypothesis)
        rows = [_matched(own, _ngrams(reference)) for reference in item.references]
        return max(rows, key=lambda row: float(chrf(np.array(row), 1)))


def chrf(sums: Array, items: Count) -> Array:
    """chrF (...) of summed statistics (..., 18), for all resamples at once. Orders that one side lacks do not count."""
    own, reference, both = (sums[..., k * _ORDER : (k + 1) * _ORDER] for k in range(3))
    usable = (own > 0) & (reference > 0)
    orders = np.maximum(usable.sum(-1), 1)
    precision = np.divide(both, own, out=np.zeros_like(sums[..., :_ORDER]), where=usable).sum(-1) / orders
    recall = np.divide(both, reference, out=np.zeros_like(sums[..., :_ORDER]), where=usable).sum(-1) / orders
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
    return [Counter(letters[k : k + n] for k in range(len(letters) - n + 1)) for n in range(1, _ORDER + 1)]


def _matched(own: list[Counter[str]], reference: list[Counter[str]]) -> list[float]:
    """The counts of one pair. Where the reference has no n-gram of an order, the output's cannot miss it."""
    sums = [float(o.total() if r else 0) for o, r in zip(own, reference, strict=True)]
    return [
        *sums,
        *(float(r.total()) for r in reference),
        *(float((o & r).total()) for o, r in zip(own, reference, strict=True)),
    ]
