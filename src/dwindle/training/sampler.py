"""The order of examples: a function of the seed and the epoch, so that a run that was stopped finds
its place again."""

from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Sampler

_POOL = 50
"""Batches whose examples are sorted by length together: much less padding, and still another
company every epoch."""
_MULTIPLE = 8
"""Batches by tokens have a multiple of this many examples, which suits GPUs."""


class Order(Sampler[int]):
    """A new permutation every ``epoch``, as far as it fills batches; of fewer examples than that,
    all of them.

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
