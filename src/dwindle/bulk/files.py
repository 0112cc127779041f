"""``FileShards``: a file of items in, a file with a record for each out, in the same order.

Items are read one at a time and records are written one at a time, so memory does not grow with
them. JSONL (``.gz`` too) and Parquet are written.
"""

import hashlib
import json
import shutil
from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from dwindle.bulk.batches import batches
from dwindle.bulk.shards import Advance, Shards
from dwindle.runfiles import tables, text_lines
from dwindle.runfiles.outputs import Item
from dwindle.runfiles.run import Run

ROWS = 4096
"""Rows of a Parquet file that are held in memory."""


class FileShards(Shards):
    """The records of the items of one file, shard by shard."""

    def __init__(self, run: Run, out: Path, total: int, block: int, blocks: int = 1) -> None:
        super().__init__(out, total, block, blocks)
        self.run = run
        self._reading: tuple[int, Iterator[Any]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_reading": None}

    @abstractmethod
    def read(self, first: int, at: tuple[int, ...]) -> Iterator[Any]:
        """The items from the ``first`` one on, which begins at the byte ``at`` of each file."""

    @abstractmethod
    def records(self, items: Iterator[Any]) -> Iterator[dict[str, Any]]:
        """The record of each item, in order."""

    @property
    @abstractmethod
    def schema(self) -> Any:
        """The types of a record, for pyarrow."""

    @cached_property
    def digest(self) -> str:
        """Digest of what is read."""
        return digest_of(self.run)

    @property
    def is_parquet(self) -> bool:
        return self.out.suffix.lower() == tables.PARQUET

    @property
    def ending(self) -> str:  # type: ignore[override]
        return tables.PARQUET if self.is_parquet else ".jsonl"

    def parcels(self) -> Iterator[tuple[int, ...]]:
        """The byte at which each shard begins."""
        return islice(self.run.starts(self.size), self.count)

    def make(self, number: int, parcel: tuple[int, ...], advance: Advance) -> None:
        # shards that follow each other are read in one go: a packed file has no other way
        place, reading = self._reading or (-1, iter(()))
        if place != number:
            reading = self.read(number * self.size, parcel)
        self._reading = None
        self.folder.mkdir(exist_ok=True)
        records = self.records(islice(reading, self.length(number)))
        self._write(self.file(number), _told(records, advance))
        self._reading = (number + 1, reading)

    def join_files(self) -> None:
        """Write the output from the files of all shards."""
        files = [self.file(number) for number in range(self.count)]
        if self.is_parquet:
            self._write(self.out, (record for file in files for record in results(file)))
            return
        with text_lines.writing(self.out) as joined:
            for file in files:
                with file.open("rb") as one:
                    shutil.copyfileobj(one, joined)

    def _write(self, path: Path, records: Iterable[dict[str, Any]]) -> None:
        write(path, records, self.schema if self.is_parquet else None)


def _told(records: Iterator[dict[str, Any]], advance: Advance) -> Iterator[dict[str, Any]]:
    for record in records:
        yield record
        advance(1)


def write(path: Path, records: Iterable[dict[str, Any]], schema: Any = None) -> None:
    """Records as lines of JSON, or with a ``schema`` as Parquet."""
    with text_lines.writing(path) as file:
        if schema is None:
            for record in records:
                file.write(
                    (json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode()
                )
            return
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import parquet

        with parquet.ParquetWriter(file, schema) as writer:
            for some in batches(records, ROWS):
                writer.write_table(pa.Table.from_pylist(some, schema))


def results(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file that was written here. Of Parquet, columns that are empty are left
    out."""
    if path.suffix.lower() == tables.PARQUET:
        return tables.rows(path)
    return map(json.loads, text_lines.texts(path))


def digest_of(run: Run) -> str:
    """Digest of a run's outputs, which tells whether a file was made from them."""
    found = []
    for path in run.files:
        with path.open("rb") as file:
            found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return found[0] if len(found) == 1 else hashlib.sha256(" ".join(found).encode()).hexdigest()


def counted(name: object, each: Callable[[], Iterator[Item]]) -> int:
    """Number of items, by reading every one: a fault in a file shows now and not hours later. Keeps
    eight bytes of each id, and refuses an id that occurs twice."""
    import numpy as np

    marks = array("q", (hash(item.id) for item in each()))
    if not marks:
        raise ValueError(f"{name} has no items: write one per line")
    different, counts = np.unique(np.frombuffer(marks, dtype=np.int64), return_counts=True)
    if len(different) < len(marks):
        _check_ids(name, each(), set(different[counts > 1].tolist()))
    return len(marks)


def _check_ids(name: object, items: Iterator[Item], marks: set[int]) -> None:
    """Refuse an id that occurs twice. Only ids whose hash is among ``marks`` can."""
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise ValueError(
                f"{name}, line {item.line} has the id {item.id!r} of an earlier line: ids must "
                "differ"
            )
        if hash(item.id) in marks:
            seen.add(item.id)
