"""Length: words and sentences of an output, and its words for each word of the references or of the
source."""

from dataclasses import dataclass

import numpy as np

from dwindle.data.script import SETTING, sentences, words
from dwindle.metrics.kind import Kind
from dwindle.metrics.score import Array, Count, Metric, made, mean
from dwindle.runfiles.outputs import Item

LENGTH = Kind("length", "length", 0, "words", 1)
RATIO = Kind("length:ratio", "length to reference")
SOURCE = Kind("length:source", "length to source")
SENTENCES = Kind("sentences", "sentences", decimals=1)


@dataclass(frozen=True)
class Length:
    """Words, sentences, the mean number of words of the references, and the words of the source (0
    without)."""

    needs: frozenset[str] = frozenset()

    def row(self, item: Item) -> list[float]:
        reference = sum(len(words(r)) for r in item.references) / max(len(item.references), 1)
        source = len(words(item.source or ""))
        return [len(words(item.hypothesis)), len(sentences(item.hypothesis)), reference, source]


@dataclass(frozen=True)
class LengthRatio(Length):
    """The same row, for a metric that requires references."""

    needs: frozenset[str] = frozenset({"references"})


@dataclass(frozen=True)
class SourceRatio(Length):
    """The same row, for a metric that requires sources."""

    needs: frozenset[str] = frozenset({"source"})


@dataclass(frozen=True)
class SentenceCount(Length):
    """The same row, for a metric that requires the ends of sentences."""

    needs: frozenset[str] = frozenset({"sentences"})


def _ratio(sums: Array, items: Count) -> Array:
    own, other = sums[..., 0], sums[..., 1]
    return np.divide(own, other, out=np.zeros_like(own), where=other > 0)


def metrics(option: str = "") -> list[Metric]:
    """``length`` in words and ``sentences``, means over outputs; ``length:ratio`` to references,
    ``length:source`` to sources."""
    settings = made(tok="words", scripts=SETTING)
    if option == "ratio":
        return [Metric(RATIO, LengthRatio(), (0, 2), _ratio, settings)]
    if option == "source":
        return [Metric(SOURCE, SourceRatio(), (0, 3), _ratio, settings)]
    if option:
        raise ValueError(
            f"length has no option {option!r}: write length, length:ratio or length:source"
        )
    return [
        Metric(LENGTH, Length(), (0,), mean, settings),
        Metric(SENTENCES, SentenceCount(), (1,), mean, settings),
    ]
