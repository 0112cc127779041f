"""Rows of a system on the workers of a cluster, and scores of single items as files.

Shards are blocks of items of similar length, so that whoever makes them, a row comes out the same;
their texts travel, so files of any kind can be scored. What a reduction counts in all items (the
idf of MoverScore) is counted before, on the machine where the command was typed.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dwindle import __version__
from dwindle.bulk.files import write
from dwindle.bulk.shards import Advance, Engine, Shards, blocks_of_one, digest, make
from dwindle.metrics.score import (
    BLOCK,
    Array,
    Blocks,
    ItemReduction,
    Metric,
    Part,
    Progress,
    Statistics,
    by_length,
    in_place,
    single_rows,
)
from dwindle.runfiles import arrays, names, tables
from dwindle.runfiles.outputs import Item, Outputs


class RowShards(Shards):
    """The rows (items, K) of every part, shard by shard."""

    ending = ".npz"

    def __init__(self, system: Outputs, parts: Sequence[Part], out: Path) -> None:
        blocks = blocks_of_one([len(system)], BLOCK)
        super().__init__(out, len(system), BLOCK, blocks)
        self.parts = parts
        self.models = any(not isinstance(part, ItemReduction) for part in parts)
        self._order: Sequence[int] = by_length(system.items)
        self._items: Sequence[Item] = [system.items[i] for i in self._order]

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_items": (), "_order": ()}  # those of a shard travel with it

    @cached_property
    def fingerprint(self) -> str:
        read = hashlib.sha256()
        for item in self._items:
            told = [item.id, item.hypothesis, item.references, item.source, item.extra.get("gold")]
            read.update(json.dumps(told, sort_keys=True, default=str).encode())
        return digest([read.hexdigest(), [_told(part) for part in self.parts]])

    def parcels(self) -> Iterator[Sequence[Item]]:
        return (self._items[start : start + self.size] for start in range(0, self.total, self.size))

    def make(self, number: int, parcel: Sequence[Item], advance: Advance) -> None:
        self.folder.mkdir(exist_ok=True)
        found = {}
        for n, part in enumerate(self.parts):
            if isinstance(part, ItemReduction):
                found[str(n)] = np.array(single_rows(parcel, [part]), dtype=np.float64)
            else:
                found[str(n)] = part.rows(parcel, lambda done: None)
            advance(len(parcel))
        arrays.write(self.file(number), found)

    def join(self) -> None:
        """The rows stay in their shards until the scores are made: see `OnCluster.clear`."""

    def rows(self) -> list[Array]:
        """The rows of each part in the order of the items, from the files of all shards."""
        files = [
            arrays.read(self.file(number), "rows of a score", "delete it, and they are made again")
            for number in range(self.count)
        ]
        parts = [np.concatenate([file[str(n)] for file in files]) for n in range(len(self.parts))]
        return [in_place(rows, self._order) for rows in parts]


def _told(part: Part) -> Any:
    """The settings of a part, and the files of its encoder, as plain values."""
    of = part.told if isinstance(part, Blocks) else vars(part)
    return [type(part).__name__, __version__, json.loads(json.dumps(of, default=_plain))]


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset | set) else str(value)


class OnCluster:
    """A `Spread` with any engine, which keeps its shards in a folder until it is told to clear
    them."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine, self._folder = engine, folder
        self._kept: list[RowShards] = []

    def __call__(
        self, system: Outputs, parts: Sequence[Part], progress: Progress
    ) -> Sequence[Array]:
        shards = RowShards(system, parts, self._folder / names.SCORES)
        self._kept.append(shards)
        single = any(isinstance(part, ItemReduction) for part in parts)
        passes = single + sum(not isinstance(part, ItemReduction) for part in parts)
        before = 0

        def tell(done: int, total: int) -> None:
            nonlocal before
            progress((done - before) * passes)
            before = done

        make([shards], self._engine, tell)
        return shards.rows()

    def clear(self) -> None:
        """Remove the shards: their scores are known."""
        for shards in self._kept:
            shards.clear()


def write_items(statistics: Statistics, metrics: Sequence[Metric], folder: Path) -> None:
    """Write the value of each item alone by every metric: for each file of the system one of the
    same name and format, in its order. A value that is not a number is null."""
    system = statistics.system
    values = {metric.name: statistics.values(metric) for metric in metrics}
    order = sorted(range(len(system)), key=lambda n: system.items[n].line)
    first = 0
    for path, count in system.files:
        rows = (
            {"id": system.items[n].id}
            | {
                name: float(found[n]) if math.isfinite(found[n]) else None
                for name, found in values.items()
            }
            for n in order[first : first + count]
        )
        first += count
        write(folder / path.name, rows, _schema(values) if tables.is_table(path) else None)


def _schema(names: Iterable[str]) -> Any:
    import pyarrow as pa  # type: ignore[import-untyped]

    return pa.schema([("id", pa.string()), *((name, pa.float64()) for name in names)])
