"""ROUGE-1, -2 and -L, numerically as ROUGE-1.5.5 with ``-n 2 -m -a -c 95``, without Perl.

Lin (2004). Its tokens, its stemmer with the irregular forms, its clipped n-gram counts, its
summary-level union LCS, its average over several references (formula A), and its rounding of every
item's score to five decimals. Also the limited-length recall used on NYT, in two forms, and a style
that equals the PyPI package `rouge-score`. Knows two texts at a time.

The script sees ASCII letters and digits only: nothing of a Chinese or a Russian text. Where a
reference is not in Latin letters, the plain ``rouge`` counts the words of `dwindle.data.script`
without stemming them; the styles that repeat another tool's numbers are refused for such texts.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from dwindle.data import script
from dwindle.metrics import lcs
from dwindle.metrics.kind import Kind
from dwindle.metrics.score import Array, Metric, Progress, made, mean
from dwindle.metrics.stem import irregular, porter
from dwindle.runfiles.outputs import Item, Outputs

T = TypeVar("T")
Style = Literal["1.5.5", "porter", "rouge-score"]
Cut = Literal["", "words", "sentences"]
_MOST_CELLS = 400_000_000
"""Cells of the table of an LCS: two texts of 20,000 words, a second and 100 MB."""
KINDS = (Kind("rouge1", "ROUGE-1", 1), Kind("rouge2", "ROUGE-2", 1), Kind("rougeL", "ROUGE-L", 1))
_ASCII_WORDS, _ASCII_BYTES = re.compile("[a-z0-9]+"), re.compile(rb"[a-z0-9]+")


class StemNumbers(dict[bytes, int]):
    """Token -> number of its stem. Each spelling is stemmed once."""

    def __init__(self, style: Style) -> None:
        self._stems: dict[str, int] = {}
        self._irregular = irregular() if style == "1.5.5" else {}
        self._stem = _nltk_stemmer() if style == "rouge-score" else porter

    def __missing__(self, token: bytes) -> int:
        word = token.decode("utf-8", "surrogatepass")
        if len(word) > 3 and word.isascii():
            word = self._irregular.get(word) or self._stem(word)
        number = self[token] = self._stems.setdefault(word, len(self._stems))
        return number


class Text:
    """A text as ROUGE sees it: sentences of stem numbers, and the counts of its n-grams."""

    def __init__(self, sentences: Iterable[list[int]]) -> None:
        self.sentences = [sentence for sentence in sentences if sentence]
        self.tokens = [token for sentence in self.sentences for token in sentence]

    @cached_property
    def unigrams(self) -> Counter[int]:
        return Counter(self.tokens)

    @cached_property
    def bigrams(self) -> Counter[tuple[int, int]]:
        return Counter(zip(self.tokens, self.tokens[1:], strict=False))


class Hits(NamedTuple):
    """Matches of one pair, and the most there could be in the reference and in the hypothesis."""

    matched: int
    reference: int
    hypothesis: int


def rouge_tokens(text: str) -> list[bytes]:
    """Maximal runs of ASCII letters and digits, lower-cased byte by byte.

    The script puts spaces around hyphens, blanks every other byte, and keeps the tokens that start
    with a letter or digit: what is left is exactly these runs.
    """
    return _ASCII_BYTES.findall(text.encode("utf-8", "surrogatepass").lower())


def text(string: str, style: Style = "1.5.5", latin: bool = True) -> Text:
    """Tokenise and stem. Newlines part sentences. Not ``latin``: words by the text's script."""
    number = _vocabulary(style).__getitem__
    if style == "rouge-score":  # which lower-cases Unicode first, so that a Kelvin sign is a k
        string = string.lower()
        tokens = (list(map(str.encode, _ASCII_WORDS.findall(part))) for part in string.split("\n"))
    elif latin:
        tokens = (rouge_tokens(part) for part in string.split("\n"))
    else:
        tokens = (
            [w.encode("utf-8", "surrogatepass") for w in script.words(part)]
            for part in string.split("\n")
        )
    return Text(list(map(number, sentence)) for sentence in tokens)


def pair_hits(reference: Text, hypothesis: Text) -> tuple[Hits, Hits, Hits]:
    """Clipped unigram, bigram, and union-LCS matches."""
    m, n = len(reference.tokens), len(hypothesis.tokens)
    if m * n > _MOST_CELLS:
        raise ValueError(
            f"a text of {n:,} words against one of {m:,} would take ROUGE-L minutes: "
            "cut the texts, or leave ROUGE and layout out"
        )
    one, two = reference.unigrams, hypothesis.unigrams
    return (
        Hits(_clipped(one, two), m, n),
        Hits(_clipped(reference.bigrams, hypothesis.bigrams), max(m - 1, 0), max(n - 1, 0)),
        Hits(_union_lcs(reference, hypothesis), m, n),
    )


def _clipped(one: Counter[T], two: Counter[T]) -> int:
    if len(one) > len(two):
        one, two = two, one
    return sum(min(count, two[gram]) for gram, count in one.items() if gram in two)


def _union_lcs(reference: Text, hypothesis: Text) -> int:
    """Tokens of the reference on an LCS with a sentence of the hypothesis, each counted at most as
    often as the hypothesis has it."""
    hit: Counter[int] = Counter()
    for sentence in reference.sentences:
        hit.update([sentence[i] for i in lcs.hits(sentence, hypothesis.sentences)])
    return _clipped(hit, hypothesis.unigrams)


def measures(pairs: Sequence[Hits], rounded: bool) -> tuple[float, float, float]:
    """Recall, precision, F1 in 0..1, matches and totals summed over references (formula A)."""
    matched, model, peer = (sum(column) for column in zip(*pairs, strict=True))
    recall, precision = matched / model if model else 0.0, matched / peer if peer else 0.0
    if rounded:
        recall, precision = round(recall, 5), round(precision, 5)
    f1 = 2 * recall * precision / (recall + precision) if recall + precision > 0 else 0.0
    return recall, precision, round(f1, 5) if rounded else f1


@dataclass(frozen=True)
class Rouge:
    """Row of nine percentages: recall, precision, F1 of ROUGE-1, of ROUGE-2, of ROUGE-L."""

    style: Style = "1.5.5"
    cut: Cut = ""
    split: bool = False
    """True to split texts without newlines into sentences, for the union LCS of ROUGE-L."""
    needs: frozenset[str] = frozenset({"references"})

    def row(self, item: Item) -> list[float]:
        hypothesis, *references = (
            script.with_sentences(one) if self.split else one
            for one in (item.hypothesis, *item.references)
        )
        pairs = []
        for reference in references:
            latin = "latin" in self.needs or script.is_latin(reference)
            cut = _CUTS[self.cut](hypothesis, reference)
            pairs.append(
                pair_hits(text(reference, self.style, latin), text(cut, self.style, latin))
            )
        columns = list(zip(*pairs, strict=True))
        # which takes, for each measure, the reference with the best F1
        if self.style == "rouge-score":
            scores = [
                max((measures([p], False) for p in column), key=lambda rpf: rpf[2])
                for column in columns
            ]
        else:
            scores = [measures(column, True) for column in columns]
        return [100 * number for rpf in scores for number in rpf]


def _whole(hypothesis: str, reference: str) -> str:
    return hypothesis


def _first_words(hypothesis: str, reference: str) -> str:
    """The first words of the hypothesis, as many as the reference has."""
    left = len(reference.split())
    kept = []
    for line in hypothesis.split("\n"):
        kept.append(" ".join(line.split()[:left]))
        left -= len(line.split())
        if left <= 0:
            break
    return "\n".join(kept)


_SLACK = 10


def _first_sentences(hypothesis: str, reference: str) -> str:
    """The first sentences of the hypothesis while they have fewer than ten words more than the
    reference, as PreSumm's code cuts (its article says words). Where two sentences meet, it counts
    their two words as one, and so does this."""
    most = _joined_words(_lines(reference)) + _SLACK
    kept: list[str] = []
    for sentence in _lines(hypothesis):
        if _joined_words([*kept, sentence]) >= most:
            break
        kept.append(sentence)
    return "\n".join(kept)


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def _joined_words(parts: Sequence[str]) -> int:
    return len("<q>".join(part.strip() for part in parts).split())


_CUTS: dict[Cut, Callable[[str, str], str]] = {
    "": _whole,
    "words": _first_words,
    "sentences": _first_sentences,
}


@dataclass(frozen=True)
class ScriptRouge:
    """The row of `Rouge`, each item weighed as the script does when it prints an average.

    The script does not print the mean but the mean of its resamples' means, so an item counts as
    often as it was drawn: 1, give or take 0.03. On 1,000 summaries that moves ROUGE-1 by a few
    hundredths of a point. Items are drawn by their place in the file, so this, like the script,
    depends on the order of lines.
    """

    split: bool = False
    needs: frozenset[str] = frozenset({"references"})

    def rows(self, system: Outputs, progress: Progress) -> Array:
        rows = np.array([Rouge(split=self.split).row(item) for item in system.items])
        weights = script_weights(len(system))
        by_line = sorted(range(len(system)), key=lambda i: system.items[i].line)
        rows[by_line] *= weights[:, None]
        progress(len(system))
        return rows


def script_weights(items: int, resamples: int = 1000) -> Array:
    """Mean count of each evaluation 1, 2, 3, ... in a resample of ROUGE-1.5.5: (items,).

    Resample i is drawn with Perl's own generator, drand48, seeded with i, from the evaluations in
    the order of their numbers as text (1, 10, 100, ...).
    """
    state = (np.arange(resamples, dtype=np.uint64) << np.uint64(16)) + np.uint64(0x330E)
    drawn = np.zeros(items)
    for _ in range(items):
        state = (state * np.uint64(0x5DEECE66D) + np.uint64(0xB)) & np.uint64(2**48 - 1)
        np.add.at(drawn, (state * 2.0**-48 * items).astype(np.int64), 1.0)
    weights = np.empty(items)
    weights[sorted(range(items), key=lambda i: f"{i + 1}.")] = drawn / resamples
    return weights


_STYLES: dict[str, Style] = {
    "": "1.5.5",
    "script": "1.5.5",
    "recall": "1.5.5",
    "presumm": "1.5.5",
    "porter": "porter",
    "rouge-score": "rouge-score",
}
_STEMMERS = {"1.5.5": "porter+wordnet2.0", "porter": "porter", "rouge-score": "nltk"}


_LIMITS: dict[str, Cut] = {"recall": "words", "presumm": "sentences"}


def metrics(option: str = "") -> list[Metric]:
    """ROUGE-1, -2, -L. ``""`` is F1 as the script finds it for each item, and their mean;
    ``script`` is the average that the script prints; ``recall`` is recall of the first words of the
    output, as many as the reference has, ``presumm`` of its first sentences, as PreSumm cuts;
    ``porter`` is the script with an empty list of irregular forms; ``rouge-score`` is that package
    (its rougeLsum). ``split``, alone or behind a plus, parts texts of one line into sentences."""
    chosen = option.split("+")
    split = chosen[-1] == "split"
    style_name = "+".join(chosen[:-1] if split else chosen)
    if style_name not in _STYLES:
        known = ", ".join(f"rouge:{name}" for name in _STYLES if name)
        raise ValueError(
            f"ROUGE has no option {option!r}: write rouge or one of {known}, with +split if you "
            "like"
        )
    style, cut = _STYLES[style_name], _LIMITS.get(style_name, "")
    needs = frozenset({"references"} if not style_name else {"references", "latin"})
    script_like = style_name == "script"
    reduction = ScriptRouge(split, needs) if script_like else Rouge(style, cut, split, needs)
    tokens, references = (
        ("rouge-score", "best") if style == "rouge-score" else ("rouge-1.5.5", "average")
    )
    settings = made(
        measure="recall" if cut else "f1",
        cut=f"reference-{cut}" if cut else None,
        sentences="split" if split else None,
        tok=tokens,
        stem=_STEMMERS[style],
        refs=references,
        scripts=None if style_name else script.SETTING,
        avg="1000-perl-resamples" if script_like else None,
    )
    column = 0 if cut else 2
    return [
        Metric(kind, reduction, (3 * i + column,), mean, settings, option)
        for i, kind in enumerate(KINDS)
    ]


@cache
def _vocabulary(style: Style) -> StemNumbers:
    return StemNumbers(style)


def _nltk_stemmer() -> Callable[[str], str]:
    try:
        from nltk.stem.porter import PorterStemmer  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise ValueError(
            "rouge:rouge-score needs nltk's stemmer: type pip install 'dwindle[metrics]'"
        ) from None
    stem: Callable[[str], str] = PorterStemmer().stem
    return stem
