"""``Shards``: work on many items that is cut into pieces, made by anyone in any order, and joined.

A shard is whole blocks of items that are computed together, because in its last digit a result may
depend on its neighbours: so it does not depend on who made it. What a shard gives is a file in a
hidden folder beside the output, whole or not there at all, named after a fingerprint of all that
decides it; a killed command goes on from these. Who makes the shards is an ``Engine``: this process
(`alone`) or a cluster (`cluster`). Knows nothing of what is computed.
"""

import hashlib
import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

MANY, MOST_BLOCKS = 4096, 16
"""A corpus is cut into about the first number of shards, of at most the second number of blocks."""

Advance = Callable[[int], None]
"""Called with the number of items that were just done."""


class Shards(ABC):
    """One output, and the shards it is made of. It is sent to workers, so it opens nothing until
    the first shard is made.

    Args:
        out: what the shards become when they are joined.
        total: the number of items.
        block: the number of items that are computed together.
        blocks: the number of blocks of a shard, from `blocks_of_one`.
    """

    ending = ""
    """End of the name of a shard's file."""
    models = True
    """True if a model makes the shards: then they are made on GPUs, where there are some."""

    def __init__(self, out: Path, total: int, block: int, blocks: int = 1) -> None:
        self.out, self.total, self.blocks = out, total, blocks
        self.size = blocks * block
        """Items of one shard; the last one may have fewer."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Digest of everything that decides the output."""

    @property
    def done(self) -> bool:
        """True if exactly this output is there already."""
        return False

    @abstractmethod
    def parcels(self) -> Iterator[Any]:
        """For each shard in turn, what its maker needs to find or to know of its items."""

    @abstractmethod
    def make(self, number: int, parcel: Any, advance: Advance) -> None:
        """Write the file of a shard, calling ``advance`` for the items that are done."""

    @abstractmethod
    def join(self) -> None:
        """Make the output of all shards, and remove them."""

    @property
    def count(self) -> int:
        return -(-self.total // self.size)

    def length(self, number: int) -> int:
        """Items of this shard."""
        return min(self.size, self.total - number * self.size)

    def missing(self) -> list[int]:
        """The shards that are still to be made."""
        return [] if self.done else [n for n in range(self.count) if not self.file(n).is_file()]

    @cached_property
    def folder(self) -> Path:
        return self.out.with_name(f".{self.out.name}.{self.fingerprint}.{self.blocks}")

    def file(self, number: int) -> Path:
        return self.folder / f"{number:08d}{self.ending}"

    def clear(self) -> None:
        """Remove what was joined."""
        shutil.rmtree(self.folder, ignore_errors=True)


Engine = Callable[[Sequence[tuple[Shards, int]], Advance], Iterator[Shards]]
"""A function that makes shards and yields, for each that is finished, whose it is."""


def blocks_of_one(totals: Iterable[int], block: int) -> int:
    """The number of blocks of a shard, for outputs of these numbers of items."""
    blocks = sum(-(-total // block) for total in totals)
    return max(1, min(MOST_BLOCKS, blocks // MANY))


def make(work: Sequence[Shards], engine: Engine, tell: Callable[[int, int], None]) -> int:
    """Make the outputs of ``work`` on any engine. Returns the number of items that were done
    before.

    ``tell``: called with the items that are done, and with all.
    """
    missing = [one.missing() for one in work]
    total = sum(one.total for one in work)
    resumed = done = total - sum(
        one.length(number) for one, numbers in zip(work, missing, strict=True) for number in numbers
    )
    left = {id(one): len(numbers) for one, numbers in zip(work, missing, strict=True)}

    def advance(items: int) -> None:
        nonlocal done
        done += items
        tell(done, total)

    advance(0)
    for one, numbers in zip(work, missing, strict=True):
        if not numbers:
            one.join()
    todo = [(one, number) for one, numbers in zip(work, missing, strict=True) for number in numbers]
    for one in engine(todo, advance):
        left[id(one)] -= 1
        if not left[id(one)]:
            one.join()
    return resumed


def alone(todo: Sequence[tuple[Shards, int]], advance: Advance) -> Iterator[Shards]:
    """The engine of this process: shards one after the other."""
    for _, some in groupby(todo, key=lambda one: id(one[0])):
        parcels: Iterator[tuple[int, Any]] = iter(())
        for k, (one, number) in enumerate(some):
            if not k:
                parcels = enumerate(one.parcels())
            parcel = next(parcel for n, parcel in parcels if n == number)
            one.make(number, parcel, advance)
            yield one


def digest(told: Any) -> str:
    """A fingerprint of plain values."""
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def weights(model: str | Path, patterns: Sequence[str] = ("*.safetensors",)) -> list[Any]:
    """Name, size and time of the files of a model's folder: another model may lie there later. A
    name on the hub has none."""
    files = sorted(file for pattern in patterns for file in Path(model).glob(pattern))
    found = ((file.name, file.stat()) for file in files)
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in found]
