"""PreSumm's filters (nlpyang/PreSumm, ``src/prepro/data_builder.py``, defaults of
``preprocess.py``).

Of a source it keeps sentences of more than 5 words, the first 200 words of each, and the first 100
sentences. Pairs to train on or watch training with are left out if fewer than 3 sentences remain,
or if the target has fewer than 5 tokens, its start, end and separators among them; test pairs never
are. There target tokens are BERT's pieces, here words, of which there are no more. Knows no corpus.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dwindle.data.example import Example, Lazy, Split
from dwindle.data.settings import DataSettings

SHORTEST, LONGEST, MOST, LEAST = 5, 200, 100, 3
"""``min_src_ntokens_per_sent``, ``max_src_ntokens_per_sent``, ``max_src_nsents``,
``min_src_nsents``."""
TARGET = 5
"""``min_tgt_ntokens``."""


def filtered(
    examples: Sequence[Example], settings: DataSettings, split: Split
) -> Sequence[Example]:
    """The examples of a split under PreSumm's filters."""
    if examples and examples[0].image is not None:
        raise ValueError(
            f"data: presumm filters texts, and {settings.corpus} has images: leave it out"
        )
    places = range(len(examples))
    kept = places if split == "test" else [i for i in places if fits(examples[i])]
    if not kept:
        raise ValueError(f"data: presumm leaves no {split} pair of {settings.corpus}: leave it out")
    if len(kept) < len(examples):
        count = len(examples) - len(kept)
        warnings.warn(
            f"{count} of {len(examples)} {split} pairs are left out, as PreSumm does",
            stacklevel=2,
        )
    return Lazy(_Trimmed(examples), kept)


@dataclass(frozen=True)
class _Trimmed:
    examples: Sequence[Example]

    def __call__(self, place: int) -> Example:
        example = self.examples[place]
        return replace(example, source=trimmed(example.source))


def trimmed(source: str) -> str:
    """The sentences that PreSumm reads. A source that has none of them stays as it is."""
    words = [line.split() for line in source.split("\n")]
    long = [" ".join(line[:LONGEST]) for line in words if len(line) > SHORTEST]
    return "\n".join(long[:MOST]) or source


def fits(example: Example) -> bool:
    """True if PreSumm would train on this pair."""
    sentences = sum(len(line.split()) > SHORTEST for line in example.source.split("\n"))
    target = example.references[0]
    tokens = len(target.split()) + target.count("\n") + 2
    return min(sentences, MOST) >= LEAST and tokens >= TARGET
