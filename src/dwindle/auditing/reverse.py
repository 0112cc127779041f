"""``Reverse``: a translator of the other direction, as a second opinion on what an output left out.

It is asked how much each word of the *source* surprises it, given the output: a word that the
output carries is no surprise, one that was left out is. The same model, given nothing, says how
surprising the word is anyway. That tells single words, which attention alone often misses. Knows
texts only.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dwindle.auditing.readers import reader_of
from dwindle.auditing.source import ReadSource
from dwindle.auditing.text import TextReader
from dwindle.data.script import Span

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Reverse:
    """A model that reads outputs and writes sources, with its tokenizer.

    Example:
        >>> reverse = dwindle.Reverse(translator, tokenizer)
        >>> ears = dwindle.listeners(translator, tokenizer, sources, reverse=reverse)
        >>> pairs = [(source, source)]
        >>> found, = dwindle.omissions(translator, tokenizer, pairs, ears, reverse=reverse)
        >>> found.alarm
        False
    """

    def __init__(self, model: "PreTrainedModel", tokenizer: Any) -> None:
        reader = reader_of(model, tokenizer)
        if not isinstance(reader, TextReader):
            raise ValueError(
                f"{type(model).__name__} reads sound: a second opinion takes a translator of texts"
            )
        self.model, self.reader = model.eval(), reader

    def probe(self) -> tuple[int, ...]:
        """Tokens of a fixed text, by which a tokenizer is recognised."""
        return tuple(self.reader.probe())

    def reach(self, text: str) -> int:
        """Number of characters of a source that this model can write."""
        pieces = self.reader.written(text)
        return (
            len(text)
            if len(pieces) < self.reader.longest
            else max((end for _, end in pieces), default=0)
        )

    def surprise(
        self, sources: Sequence[ReadSource], texts: Sequence[str], outputs: Sequence[str]
    ) -> list[Tensor]:
        """(P, 2) for each source: surprise of its parts in nats, given the output or nothing."""
        pieces = [self.reader.written(text) for text in texts]
        given, nothing = (
            self.reader.surprise(some, texts) for some in (outputs, [""] * len(texts))
        )
        return [
            torch.stack([_summed(source, cut, each) for each in both], 1)
            for source, cut, *both in zip(sources, pieces, given, nothing, strict=True)
        ]


def _summed(source: ReadSource, pieces: Sequence[Span], each: Tensor) -> Tensor:
    """(P,): the surprise of the pieces that overlap with each part; ``each`` is (T,)."""
    found = torch.zeros(len(source.parts))
    first = 0  # both are in the order of the text
    for (start, end), surprise in zip(pieces, each.tolist(), strict=True):
        while first < len(source.parts) and source.parts[first].end <= start:
            first += 1
        at = first
        while at < len(source.parts) and start < end and source.parts[at].start < end:
            found[at] += surprise
            at += 1
    return found
