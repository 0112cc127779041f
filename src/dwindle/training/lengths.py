"""Rows by the lengths of their texts: those learnt from, and their lengths. Knows no models."""

import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from dwindle.training.rows import Encoded, Looked
from dwindle.training.settings import TrainingSettings

Sides = npt.NDArray[np.int64]
"""(N, 2): the tokens of each source and target."""


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
        """The characters of each."""
        return [int(self.rows.lengths[i]) for i in self.kept]

    @cached_property
    def tokens(self) -> list[tuple[int, int]]:
        """The tokens of each source and target."""
        both: list[list[int]] = sides(self.rows)[np.asarray(self.kept)].tolist()
        return [(source, target) for source, target in both]


def picked(rows: Encoded | Looked, settings: TrainingSettings, end: int | None) -> Picked:
    """The rows without those that are too long or too unequal, which are counted."""
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
    """Number of tokens of each source and target. ``end``: not counted in last place."""
    if isinstance(rows, Looked):
        raise ValueError(
            "an image has no tokens: leave max_tokens, clean_length and clean_ratio out"
        )
    return np.stack([rows.count(column, end) for column in ("input_ids", "labels")], 1)


def clean(lengths: Sides, settings: TrainingSettings) -> list[int]:
    """The places of those that are left: as the Moses script
    ``clean-corpus-n.perl -ratio R 1 LENGTH`` has it, which fairseq's ``prepare-wmt14en2de.sh`` and
    ``prepare-wmt14en2fr.sh`` call."""
    keep = np.ones(len(lengths), dtype=bool)
    if settings.clean_length:
        keep &= (lengths <= settings.clean_length).all(1)
    if settings.clean_ratio:
        keep &= lengths.max(1) <= settings.clean_ratio * lengths.min(1)
    return [int(i) for i in keep.nonzero()[0]]
