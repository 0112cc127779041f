"""Rows of a system on the workers of a cluster, and scores of single items as files.

Shards are blocks of items in the order of their ids, so that whoever makes them, a row comes out
the same; their texts travel, so files of any kind can be scored. What a reduction counts in all
items (the idf of MoverScore) is counted before, on the machine where the command was typed.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dwindle.bulk.files import write
from dwindle.bulk.shards import Advance, Engine, Shards, blocks_of_one, digest, make, weights
from dwindle.metrics.score import (
    BLOCK,
    Array,
    ItemReduction,
    Metric,
    Part,
    Progress,
    Spread,
    Statistics,
    single_rows,
)
from dwindle.runfiles import tables
from dwindle.runfiles.outputs import Item, Outputs


class RowShards(Shards):
    """The rows (items, K) of every part, shard by shard."""

    ending = ".npz"

    def __init__(self, system: Outputs, parts: Sequence[Part], out: Path) -> None:
        blocks = blocks_of_one([len(system)], BLOCK)
        super().__init__(out, len(system), BLOCK, blocks)
        self.parts = parts
        self.models = any(not isinstance(part, ItemReduction) for part in parts)
        self._items: Sequence[Item] = system.items

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_items": ()}  # those of a shard travel with it

    @cached_property
    def fingerprint(self) -> str:
        read = hashlib.sha256()
        for item in self._items:
            told = [item.id, item.hypothesis, item.references, item.source, item.extra.get("gold")]
            read.update(json.dumps(told, sort_keys=True).encode())
        return digest([read.hexdigest(), [_told(part) for part in self.parts]])

    def parcels(self) -> Iterator[Sequence[Item]]:
        return (
            self._items[start : start + self.size] for start in range(0, self.total, self.size)
        )

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
        """The rows stay where they are until they are `taken`."""

    def taken(self) -> list[Array]:
        """The rows of each part, from the files of all shards, which are then removed."""
        files = [arrays.read(self.file(number)) for number in range(self.count)]
        rows = [np.concatenate([file[str(n)] for file in files]) for n in range(len(self.parts))]
        self.clear()
        return rows
