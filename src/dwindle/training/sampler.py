"""Chooses the rows to learn from, by the lengths of their texts, and their order: a function of the
seed and the epoch, so that a run that was stopped finds its place again. Knows no models."""

import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset, Sampler

from dwindle.training.rows import Encoded, Looked
from dwindle.training.settings import TrainingSettings

Sides = npt.NDArray[np.int64]
"""(N, 2): the number of tokens of each source and target."""
_POOL = 50
"""Batches whose examples are sorted by length together: much less padding, and yet other batches
every epoch."""
_MULTIPLE = 8
"""Batches by tokens have a multiple of this many examples, which suits GPUs."""


class Picked(Dataset[Any]):
    """Some rows, one by one; or a list of them, asked for by a list of places."""

    def __init__(self, rows: Encoded | Looked, kept: Sequence[int] | None = None) -> None:
        self.rows, self.kept = rows, range(len(rows)) if kept is None else kept

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, index: int | list[int]) -> Any:
        return [self[i] for i in index] if isinstance(index, list) else self.rows[self.kept[index]]

    @property
    def cut(self) -> int:
        """Number of sources that were too long for the model."""
        return self.rows.cut

    @property
    def lengths(self) -> list[int]:
        """Number of characters of each row."""
        return [int(self.rows.lengths[i]) for i in self.kept]

    @cached_property
    def tokens(self) -> list[tuple[int, int]]:
        """Number of tokens of each source and target."""
        both: list[list[int]] = sides(self.rows)[np.asarray(self.kept)].tolist()
        return [(source, target) for source, target in both]


def picked(rows: Encoded | Looked, settings: TrainingSettings, end: int | None) -> Picked:
    """The rows without those that are too long or too unequal in length; a warning counts these."""
    if not (settings.clean_length or settings.clean_ratio):
        return Picked(rows)
    kept = clean(sides(rows, end), settings)
    if not kept:
        raise ValueError(
            "no training examples are left: all are too long or unequal, by clean_length and "
            "clean_ratio"
        )
    if len(kept) < len(rows):
        out = len(rows) - len(kept)
        warnings.warn(
            f"{out} of {len(rows)} training examples are too long or unequal and are left out",
            stacklevel=4,
        )
    return Picked(rows, kept)


def sides(rows: Encoded | Looked, end: int | None = None) -> Sides:
    """Number of tokens of each source and target. ``end``: a token that is not counted if it comes
    last."""
    if isinstance(rows, Looked):
        raise ValueError(
            "an image has no tokens: leave max_tokens, clean_length and clean_ratio out"
        )
    return np.stack([rows.count(column, end) for column in ("input_ids", "labels")], 1)


def clean(lengths: Sides, settings: TrainingSettings) -> list[int]:
    """Positions of the rows that are kept, as by the Moses script ``clean-corpus-n.perl -ratio R 1
    LENGTH``, which fairseq's ``prepare-wmt14en2de.sh`` and ``prepare-wmt14en2fr.sh`` call."""
    keep = np.ones(len(lengths), dtype=bool)
    if settings.clean_length:
        keep &= (lengths <= settings.clean_length).all(1)
    if settings.clean_ratio:
        keep &= lengths.max(1) <= settings.clean_ratio * lengths.min(1)
    return [int(i) for i in keep.nonzero()[0]]


class Order(Sampler[int]):
    """A new permutation every ``epoch``, cut to whole batches; if there are fewer examples than a
    batch has, all of them.

    With ``lengths``, examples of similar length are next to each other.
    """

    def __init__(self, count: int, seed: int, batch: int, lengths: list[int] | None = None) -> None:
        self.count, self.seed, self.batch, self.lengths = count, seed, batch, lengths
        self.epoch = 0

    def __len__(self) -> int:
        return self.count - self.count % self.batch or self.count

    def __iter__(self) -> Iterator[int]:
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order: list[int] = torch.randperm(self.count, generator=draw).tolist()[: len(self)]
        return iter(order if self.lengths is None else self._by_length(order, self.lengths, draw))

    def _by_length(self, order: list[int], lengths: list[int], draw: torch.Generator) -> list[int]:
        """Pools are sorted and cut into batches; then the batches of all pools are shuffled."""
        pool = _POOL * self.batch
        pools = [
            sorted(order[i : i + pool], key=lengths.__getitem__) for i in range(0, len(order), pool)
        ]
        batches = [
            some[i : i + self.batch] for some in pools for i in range(0, len(some), self.batch)
        ]
        return [
            i for k in torch.randperm(len(batches), generator=draw).tolist() for i in batches[k]
        ]


class TokenOrder(Sampler[list[int]]):
    """Batches of up to ``most`` tokens, padding counted, in a new order every ``epoch``; as many as
    fill steps of ``together`` batches, or all if there are fewer.

    As fairseq has it (``data/data_utils_fast.pyx``, ``data/language_pair_dataset.py``): examples
    are sorted by the lengths of source and target and cut where a batch would be too large, batches
    of 8 or more have a multiple of 8 examples, and which examples make a batch does not change from
    epoch to epoch.
    """

    def __init__(
        self, lengths: Sequence[tuple[int, int]], seed: int, most: int, together: int
    ) -> None:
        self.seed, self.epoch = seed, 0
        draw = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(lengths), generator=draw).tolist()
        self.batches = _batches(
            sorted(order, key=lengths.__getitem__), [max(both) for both in lengths], most
        )
        self.count = len(self.batches) - len(self.batches) % together or len(self.batches)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[list[int]]:
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        chosen = torch.randperm(len(self.batches), generator=draw).tolist()[: self.count]
        return iter([self.batches[k] for k in chosen])


def _batches(order: list[int], tokens: Sequence[int], most: int) -> list[list[int]]:
    """``order`` cut into batches whose examples times the longest are at most ``most``."""
    if order and (longest := max(tokens)) > most:
        raise ValueError(
            f"an example has {longest} tokens, more than max_tokens={most}: raise it, or set "
            "clean_length"
        )
    batches: list[list[int]] = []
    batch: list[int] = []
    width = 0
    for index in order:
        if max(width, tokens[index]) * (len(batch) + 1) > most:
            full = max(len(batch) // _MULTIPLE * _MULTIPLE, len(batch) % _MULTIPLE)
            batches.append(batch[:full])
            batch = batch[full:]
            width = max((tokens[i] for i in batch), default=0)
        batch.append(index)
        width = max(width, tokens[index])
    return [*batches, batch] if batch else batches
