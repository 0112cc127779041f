"""``Codec``: the protocol of every model's codec, which turns text into the tensors of that model
and back.

A codec hides how its model reads: words with copied out-of-vocabulary ones, subwords, the regions
of an image. It knows neither corpora nor the model's weights.
"""

from pathlib import Path
from typing import Any, Protocol, Self

import torch
from torch import Tensor

Row = dict[str, Any]
"""One example as ids. Only the codec that made it looks inside."""
Batch = dict[str, Any]
"""Arguments of the model's ``forward`` and ``generate`` by name: tensors (B, ...)."""
IGNORED = -100
"""The label of a position without a word."""


def padded(rows: list[list[int]], value: int) -> Tensor:
    """(B, longest): rows of ids as one tensor, filled up with ``value``."""
    width = max(map(len, rows))
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])


class Codec(Protocol):
    """Text to tensors and back. A newline separates sentences in every text, in or out."""

    @property
    def sentence_break(self) -> int | None:
        """The token that separates sentences; None where sentences are separated without one."""

    def words(self, ids: list[int]) -> list[str]:
        """The words that tokens write, pieces joined. Special tokens are words."""

    def encode(self, source: Any, target: str | None = None) -> Row:
        """One example: source (text, or regions (R, D)), cut to the model's length, and target.

        ``cut`` in the row says whether the source was.
        """

    def limit(self, source: int, target: int) -> None:
        """From now on, cut sources and targets to these numbers of tokens. Regions are not cut: a
        model reads all of them."""

    def collate(self, rows: list[Row]) -> Batch:
        """Rows as one padded batch; with ``labels`` (B, T), padded with -100, if there are any."""

    def decode(self, sequences: Tensor, batch: Batch) -> list[str]:
        """The texts of generated ids (N, T), in the order of the batch they came from (N = B x
        sequences of each)."""

    def source_tokens(self, source: Any) -> list[str]:
        """The S source positions of one example as strings, after cutting: the labels of a view of
        coverage."""

    def unknown(self, source: str) -> list[str]:
        """The words of a text that the model cannot know: outside its vocabulary, or there in
        single letters only."""

    def save_pretrained(self, folder: Path) -> None:
        """Write the codec's files into the folder of its model."""

    @classmethod
    def from_pretrained(cls, folder: Path) -> Self:
        """The codec that was saved there."""
