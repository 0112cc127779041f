"""CIDEr and CIDEr-D (Vedantam et al., 2015), for scoring and as a training reward.

What captioning papers print as CIDEr is the output of the COCO tool, which computes CIDEr-D: tf-idf
cosine of 1- to 4-grams, hypothesis counts clipped to the reference's, times a Gaussian of the
difference in length. Here ``cider`` and ``cider-d`` both are that, and ``cider:plain`` is the first
formula of the article, without clip and Gaussian. Scale: 0 to 10, as the tool (papers multiply by
100). The tool lower-cases and drops punctuation before it counts, and so do the words of this room;
text that went through a tokenizer already is split at spaces by ``cider:spaces``, as the tool does
after its own.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dwindle.data.script import SETTING, words
from dwindle.metrics.kind import Kind
from dwindle.metrics.score import Array, Metric, Progress, made, mean
from dwindle.runfiles.outputs import Outputs

CIDER, CIDER_D = Kind("cider", "CIDEr", 1, decimals=4), Kind("cider-d", "CIDEr-D", 1, decimals=4)
_ORDER = 4
_SIGMA = 6.0
_WORD_BITS = 32


def _grams(ids: Sequence[int]) -> list[Counter[int]]:
    """The counts of 1-, 2-, 3- and 4-grams. An n-gram is one integer, 32 bits a word: far quicker
    than a tuple."""
    grams = list(ids)
    counts = [Counter(grams)]
    for n in range(1, _ORDER):
        grams = [gram << _WORD_BITS | word for gram, word in zip(grams, ids[n:], strict=False)]
        counts.append(Counter(grams))
    return counts


@dataclass(frozen=True)
class _Reference:
    """A reference: for each order (n-gram, idf, tf-idf) and their norm; its length in bigrams."""

    terms: list[list[tuple[int, float, float]]]
    norms: list[float]
    length: int


class CiderScorer:
    """Rewards against references, with document frequencies counted once.

    ``documents``: the references of each image (or item) of the corpus that gives the document
    frequencies; a document frequency is the number of images with the n-gram in a reference.
    Vectors of references are kept.
    """

    def __init__(
        self, documents: Iterable[Sequence[str]], plain: bool = False, unicode_words: bool = False
    ) -> None:
        self._plain = plain
        self._tokens = words if unicode_words else str.split
        self._numbers: dict[str, int] = {}
        frequencies: list[Counter[int]] = [Counter() for _ in range(_ORDER)]
        count = 0
        for references in documents:
            texts = [_grams(self._ids(text)) for text in references]
            for order, frequency in enumerate(frequencies):
                frequency.update({gram for text in texts for gram in text[order]})
            count += 1
        if not count:
            raise ValueError(
                "CIDEr needs documents to count frequencies in: give at least one list of "
                "references"
            )
        self._unseen = math.log(count)
        self._idf = [
            {gram: self._unseen - math.log(n) for gram, n in f.items()} for f in frequencies
        ]
        self._references: dict[str, _Reference] = {}

    def reward(self, hypothesis: str, references: Sequence[str]) -> float:
        """CIDEr-D (or plain CIDEr) of one hypothesis, in 0..10; 0 without references."""
        ids = self._ids(hypothesis)
        grams = _grams(ids)
        norms = self._norms(grams)
        total = 0.0
        for text in references:
            reference = self._reference(text)
            cosines = self._cosines(grams, norms, reference)
            if not self._plain:
                apart = max(len(ids) - 1, 0) - reference.length
                cosines *= math.exp(-(apart**2) / (2 * _SIGMA**2))
            total += cosines
        return 10 * total / _ORDER / len(references) if references else 0.0

    def rewards(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
        """The rewards (B,) of B hypotheses."""
        return np.array([self.reward(h, r) for h, r in zip(hypotheses, references, strict=True)])

    def _ids(self, text: str) -> list[int]:
        numbers = self._numbers
        return [numbers.setdefault(word, len(numbers)) for word in self._tokens(text)]

    def _reference(self, text: str) -> _Reference:
        reference = self._references.get(text)
        if reference is None:
            ids = self._ids(text)
            grams = _grams(ids)
            terms = [
                [
                    (gram, idf.get(gram, self._unseen), n * idf.get(gram, self._unseen))
                    for gram, n in counts.items()
                ]
                for idf, counts in zip(self._idf, grams, strict=True)
            ]
            reference = _Reference(terms, self._norms(grams), max(len(ids) - 1, 0))
            self._references[text] = reference
        return reference

    def _norms(self, grams: Sequence[Counter[int]]) -> list[float]:
        """The length of the tf-idf vector of each order."""
        unseen = self._unseen
        return [
            math.sqrt(sum([(w := n * idf.get(gram, unseen)) * w for gram, n in counts.items()]))
            for idf, counts in zip(self._idf, grams, strict=True)
        ]

    def _cosines(
        self, grams: Sequence[Counter[int]], norms: Sequence[float], reference: _Reference
    ) -> float:
        """The sum of the cosines of all orders, the hypothesis's weights clipped unless plain."""
        total = 0.0
        for mine, terms, a, b in zip(grams, reference.terms, norms, reference.norms, strict=True):
            if a and b:
                pairs = [(mine[gram] * idf, weight) for gram, idf, weight in terms if gram in mine]
                if self._plain:
                    dot = sum([x * y for x, y in pairs])
                else:
                    dot = sum([(x if x < y else y) * y for x, y in pairs])
                total += dot / (a * b)
        return total


@dataclass(frozen=True)
class Cider:
    """One column: CIDEr of the item, with document frequencies from all references of the file."""

    plain: bool = False
    spaces: bool = False
    needs: frozenset[str] = frozenset({"references"})

    def rows(self, system: Outputs, progress: Progress) -> Array:
        documents = [item.references for item in system.items]
        scorer = CiderScorer(documents, self.plain, unicode_words=not self.spaces)
        rewards = scorer.rewards([item.hypothesis for item in system.items], documents)
        progress(len(system))
        return rewards[:, None]


def metrics(option: str = "", kind: Kind = CIDER) -> list[Metric]:
    """``""`` counts Unicode words, ``spaces`` what stands between spaces (for text that is
    tokenised); ``plain`` is CIDEr without clip and Gaussian; ``plain+spaces`` is both."""
    chosen = set(option.split("+")) - {""}
    if not chosen <= ({"spaces"} if kind is CIDER_D else {"plain", "spaces"}):
        raise ValueError(
            f"{kind.name} has no option {option!r}: write cider, cider:spaces, cider:plain or "
            "cider:plain+spaces"
        )
    plain, spaces = "plain" in chosen, "spaces" in chosen
    settings = made(
        formula="cider" if plain else "cider-d",
        sigma="none" if plain else "6",
        df="references",
        tok="spaces" if spaces else "words",
        scripts=None if spaces else SETTING,
    )
    return [Metric(kind, Cider(plain, spaces), (0,), mean, settings, option)]


def metrics_d(option: str = "") -> list[Metric]:
    """CIDEr-D under its own name."""
    return metrics(option, CIDER_D)
