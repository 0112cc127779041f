"""BLEU-1 to BLEU-4 as the COCO tool has them, for captions and image paragraphs.

As `pycocoevalcap`: the closest reference's length, corpus counts, no smoothing, and BLEU-n the
geometric mean of the first n precisions. Not comparable with ``bleu``, whose tokens and smoothing
are others. Words are those of ``cider``.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from dwindle.data.script import SETTING, words
from dwindle.metrics.kind import Kind
from dwindle.metrics.score import Array, Count, Metric, made
from dwindle.runfiles.outputs import Item

ORDERS = (1, 2, 3, 4)
KINDS = tuple(Kind(f"bleu{n}", f"BLEU-{n}", 1) for n in ORDERS)
_SMALL, _TINY = 1e-9, 1e-15  # the tool's guards against nothing


@dataclass(frozen=True)
class CocoBleu:
    """Row: length of output and closest reference, then matched n-grams and n-grams for each n."""

    spaces: bool = False
    needs: frozenset[str] = frozenset({"references"})

    def row(self, item: Item) -> list[float]:
        split = str.split if self.spaces else words
        own, references = split(item.hypothesis), [split(text) for text in item.references]
        closest = min((abs(len(text) - len(own)), len(text)) for text in references)[1]
        row: list[float] = [len(own), closest]
        for n in ORDERS:
            mine, most = _grams(own, n), Counter[tuple[str, ...]]()
            for text in references:
                most |= _grams(text, n)
            row += [(mine & most).total(), mine.total()]
        return row


def _grams(tokens: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[i:] for i in range(n)), strict=False))


def bleu_n(sums: Array, items: Count) -> Array:
    """BLEU-n (...) of the lengths and the counts of orders 1..n (..., 2 + 2 n)."""
    own, reference = sums[..., 0] + _TINY, sums[..., 1] + _SMALL
    precisions = (sums[..., 2::2] + _TINY) / (sums[..., 3::2] + _SMALL)
    brevity = np.exp(np.minimum(1 - reference / own, 0))
    return np.asarray(100 * brevity * precisions.prod(-1) ** (1 / precisions.shape[-1]))


def metrics(option: str = "") -> list[Metric]:
    """``bleu1`` to ``bleu4``; ``spaces`` for text that is tokenised."""
    if option not in ("", "spaces"):
        raise ValueError(f"coco-bleu has no option {option!r}: write coco-bleu or coco-bleu:spaces")
    settings = made(
        tok=option or "words", scripts=None if option else SETTING, smooth="none", length="closest"
    )
    return [
        Metric(kind, CocoBleu(bool(option)), tuple(range(2 + 2 * n)), bleu_n, settings, option)
        for n, kind in zip(ORDERS, KINDS, strict=True)
    ]
