"""The order of examples: a function of the seed and the epoch, so that a run that was stopped finds its place again."""

from collections.abc import Iterator

import torch
from torch.utils.data import Sampler

_POOL = 50
"""Batches whose examples are sorted by length together: much less padding, and still another company every epoch."""


class Order(Sampler[int]):
    """A new permutation every ``epoch``, as far as it fills batches; of fewer examples than that, all of them.

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
        pools = [sorted(order[i : i + pool], key=lengths.__getitem__) for i in range(0, len(order), pool)]
        batches = [some[i : i + self.batch] for some in pools for i in range(0, len(some), self.batch)]
        return [i for k in torch.randperm(len(batches), generator=draw).tolist() for i in batches[k]]
