"""What a corpus is like: pairs, lengths, vocabulary, and how much of the references is not in the sources (the
paper's Table 8, and the reference rows of its Tables 14 and 15). One pass, nothing held but the vocabularies.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dwindle.data.example import Example
from dwindle.folder.outputs import Item
from dwindle.metrics.copied import ORDERS, Copied
from dwindle.metrics.words import sentences, words


@dataclass(frozen=True)
class CorpusStatistics:
    """Of one split. Lengths are means over texts; what needs sources is None where the sources are images."""

    pairs: int
    source_words: float | None
    source_sentences: float | None
    reference_words: float
    reference_sentences: float
    source_vocabulary: int | None
    """Distinct words of the sources, case-folded."""
    reference_vocabulary: int
    """Distinct words of the references."""
    novelty: tuple[float, ...] | None
    """Percent of the references' n-grams that are not in their source, n = 1 to 5, mean over references."""


def statistics(examples: Iterable[Example], progress: Callable[[int], None] = lambda done: None) -> CorpusStatistics:
    """Count a split; ``progress`` is told of each example."""
    pairs = 0
    source, reference = _Side(), _Side()
    novel = [0.0] * len(ORDERS)
    of_images = False
    for example in examples:
        pairs += 1
        of_images |= example.image is not None
        source.add("" if of_images else example.source)
        for text in example.references:
            reference.add(text)
            row = Copied().row(Item(example.id, text, source=example.source))
            novel = [total + share for total, share in zip(novel, row[2::3], strict=False)]
        progress(1)
    if not pairs:
        raise ValueError("the split has no examples: there is nothing to count")
    return CorpusStatistics(
        pairs,
        None if of_images else source.words / source.texts,
        None if of_images else source.sentences / source.texts,
        reference.words / reference.texts,
        reference.sentences / reference.texts,
        None if of_images else len(source.vocabulary),
        len(reference.vocabulary),
        None if of_images else tuple(total / reference.texts for total in novel),
    )


class _Side:
    """Running sums over the texts of one side."""

    def __init__(self) -> None:
        self.texts = self.words = self.sentences = 0
        self.vocabulary: set[str] = set()

    def add(self, text: str) -> None:
        found = words(text)
        self.texts += 1
        self.words += len(found)
        self.sentences += len(sentences(text))
        self.vocabulary.update(found)
