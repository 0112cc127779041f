"""Statistics of a corpus: pairs, lengths, vocabulary, and the share of references not in sources.

These are the paper's Table 8 and the reference rows of its Tables 14 and 15. One pass, in which
nothing is held but the vocabularies.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dwindle.data.example import Example
from dwindle.data.script import sentences, words
from dwindle.metrics.copied import ORDERS, Copied
from dwindle.runfiles.outputs import Item


@dataclass(frozen=True)
class CorpusStatistics:
    """One split. Lengths are means over texts; numbers on sources are None if these are images."""

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
    """Percent of the references' n-grams that their source lacks, n = 1 to 5; a mean."""


def statistics(
    examples: Iterable[Example], progress: Callable[[int], None] = lambda done: None
) -> CorpusStatistics:
    """Count a split; ``progress`` is called for each example."""
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
