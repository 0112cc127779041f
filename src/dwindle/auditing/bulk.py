"""Whole files: outputs in, a file of findings for each out, going on after a kill.

An item has a ``hypothesis``, and a ``source`` (text) or an ``audio`` (a WAV file, from the folder
of the input). Items are read one at a time, so memory does not grow with them. A file is cut into
shards, each of whole blocks of pairs that share batches, so that a finding does not depend on who
made it. The findings of a shard are a file in a hidden folder beside the output, named after a
fingerprint of all that makes them; when all are there they become the output, and the listeners lie
beside it. Who makes the shards is an ``Engine``: this process (`alone`) or a cluster (`cluster`).
"""

import hashlib
import json
import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import groupby, islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from dwindle.auditing.auditor import Auditor
from dwindle.auditing.deletions import Progress
from dwindle.auditing.listeners import Listeners
from dwindle.auditing.sound import read_wave
from dwindle.auditing.source import batches
from dwindle.runfiles import tables, text_lines
from dwindle.runfiles.outputs import Item
from dwindle.runfiles.run import Run, ears_of

MANY, MOST_BLOCKS = 4096, 16
"""A corpus is cut into about the first number of shards, of at most the second number of blocks."""
ROWS = 4096
"""Rows of a Parquet file that are held in memory."""


@dataclass(frozen=True)
class Summary:
    """The counts of one or more audited files of outputs."""

    items: int
    alarmed: int
    unread: int
    """Items whose source was longer than the model reads."""
    resumed: int
    """Items that an earlier run had done."""


@dataclass(frozen=True)
class Shards:
    """The findings of one file of outputs, shard by shard."""

    run: Run
    out: Path
    total: int
    """Number of items, as `checked` counts them."""
    auditor: Auditor
    blocks: int = 1
    """Number of blocks of one shard."""

    @property
    def size(self) -> int:
        """Items of one shard; the last one may have fewer."""
        return self.blocks * self.auditor.block

    @property
    def count(self) -> int:
        return -(-self.total // self.size)

    def length(self, number: int) -> int:
        """Items of this shard."""
        return min(self.size, self.total - number * self.size)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of everything that decides the findings."""
        auditor, ears = self.auditor, asdict(self.auditor.listeners)
        ears["origin"] = {
            k: v for k, v in ears["origin"].items() if k not in ("outputs", "findings")
        }
        models = [(name, _weights(Path(name))) for name in auditor.names]
        told = [
            ears,
            models,
            digest(self.run),
            auditor.batch,
            auditor.brief,
            auditor.repair,
            self.out.suffix,
        ]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def done(self) -> bool:
        """True if the findings of exactly this audit are there."""
        ears = ears_of(self.out)
        if not self.out.is_file() or not ears.is_file():
            return False
        return Listeners.load(ears).origin.get("findings") == self.fingerprint

    def missing(self) -> list[int]:
        """The shards that are still to be made."""
        return [] if self.done else [n for n in range(self.count) if not self._file(n).is_file()]

    def items(self, number: int, at: Sequence[int]) -> Iterator[tuple[str, Any, str]]:
        """Items of one shard; the first one begins at the byte ``at``."""
        return islice(items(self.run, number * self.size, at), self.length(number))

    def write(self, number: int, records: Iterable[dict[str, Any]]) -> None:
        """The findings of one shard, whole or not at all."""
        self._folder.mkdir(exist_ok=True)
        _write(self._file(number), records, self.auditor.schema if self._parquet else None)

    def join(self) -> None:
        """Make the output of all shards, and remove them."""
        if self.done:
            return
        files = [self._file(number) for number in range(self.count)]
        ears = replace(
            self.auditor.listeners,
            origin=self.auditor.listeners.origin | {"outputs": digest(self.run)},
        )
        ears.save(ears_of(self.out))
        if self._parquet:
            _write(
                self.out,
                (record for file in files for record in results(file)),
                self.auditor.schema,
            )
        else:
            with text_lines.writing(self.out) as joined:
                for file in files:
                    with file.open("rb") as one:
                        shutil.copyfileobj(one, joined)
        replace(ears, origin=ears.origin | {"findings": self.fingerprint}).save(ears_of(self.out))
        shutil.rmtree(self._folder)

    @property
    def _parquet(self) -> bool:
        return self.out.suffix.lower() == tables.PARQUET

    @property
    def _folder(self) -> Path:
        return self.out.with_name(f".{self.out.name}.{self.fingerprint}.{self.blocks}")

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:08d}{tables.PARQUET if self._parquet else '.jsonl'}"


Engine = Callable[[Sequence[tuple[Shards, int]], Callable[[int], None]], Iterator[Shards]]
"""A function that makes shards and yields the file of each one that is finished. It calls its
second argument with the number of items that were just done."""


def shards(files: Sequence[tuple[Run, Path, int]], auditor: Auditor) -> list[Shards]:
    """Files of outputs, each with its findings and its number of items, cut for ``auditor``."""
    blocks = sum(-(-total // auditor.block) for _, _, total in files)
    of_one = max(1, min(MOST_BLOCKS, blocks // MANY))
    return [Shards(run, out, total, auditor, of_one) for run, out, total in files]


def audit(
    files: Sequence[Shards], engine: Engine, progress: Progress = lambda stage, done, total: None
) -> Summary:
    """Write the findings of every output of ``files``, a record each, in order, on any engine."""
    missing = {n: file.missing() for n, file in enumerate(files)}
    total = sum(file.total for file in files)
    done = total - sum(
        files[n].length(number) for n, numbers in missing.items() for number in numbers
    )
    resumed, left = done, {id(files[n]): len(numbers) for n, numbers in missing.items()}

    def advance(items: int) -> None:
        nonlocal done
        done += items
        progress("auditing", done, total)

    advance(0)
    for n, numbers in missing.items():
        if not numbers:
            files[n].join()
    for file in engine(
        [(files[n], number) for n, numbers in missing.items() for number in numbers], advance
    ):
        left[id(file)] -= 1
        if not left[id(file)]:
            file.join()
    items_done = alarmed = unread = 0
    for record in (record for file in files for record in results(file.out)):
        items_done += 1
        alarmed += record["alarm"]
        unread += "unread" in record
    return Summary(items_done, alarmed, unread, resumed)


def alone(todo: Sequence[tuple[Shards, int]], advance: Callable[[int], None]) -> Iterator[Shards]:
    """Shards one after the other in this process. A file is read once, from start to end."""
    for _, some in groupby(todo, key=lambda one: id(one[0])):
        reading: Iterator[tuple[str, Any, str]] | None = None
        read = 0
        for file, number in some:
            reading = items(file.run) if reading is None else reading
            first = number * file.size
            these = islice(reading, first - read, first - read + file.length(number))
            read = first + file.length(number)
            file.write(number, _told(file.auditor.records(these), advance))
            yield file


def _told(
    records: Iterable[dict[str, Any]], advance: Callable[[int], None]
) -> Iterator[dict[str, Any]]:
    for record in records:
        yield record
        advance(1)


def look(
    runs: Sequence[Run],
    total: int,
    count: int,
    auditor: Auditor,
    progress: Progress = lambda stage, done, total: None,
) -> list[tuple[dict[str, Any], str | None]]:
    """Findings in a random sample of the ``total`` outputs, with source texts. Writes nothing."""
    chosen = drawn(runs, total, count)
    found = []
    progress("auditing a sample", 0, len(chosen))
    for (_, source, _), record in zip(chosen, auditor.records(chosen), strict=True):
        found.append((record, source if isinstance(source, str) else None))
        progress("auditing a sample", len(found), len(chosen))
    return found


def items(run: Run, first: int = 0, at: Sequence[int] = ()) -> Iterator[tuple[str, Any, str]]:
    """(id, source, hypothesis) of each item; a sound is read from its file only now."""
    return ((item.id, _source(run, item), item.hypothesis) for item in run.each(first, at))


def _source(run: Run, item: Item) -> Any:
    return item.source if item.source is not None else read_wave(_sound(run, item))


def _sound(run: Run, item: Item) -> Path:
    """The WAV file of an item without a text."""
    audio = item.extra.get("audio")
    if not isinstance(audio, str):
        where = f"{run.outputs_file}, line {item.line}"
        raise ValueError(f'{where} has no "source": write the text, or name a WAV file as "audio"')
    return run.outputs_file.parent / audio


def checked(run: Run) -> int:
    """Count the items by reading every one: a fault in the file shows now and not hours later.
    Keeps eight bytes of each id.
    """
    marks = array("q")
    for item in run.each():
        if item.source is None and not (sound := _sound(run, item)).is_file():
            raise ValueError(
                f"{run.outputs_file}, line {item.line} names {sound}, which is not there: check "
                "its name"
            )
        marks.append(hash(item.id))
    if not marks:
        raise ValueError(f"{run} has no items: write one per line")
    different, counts = np.unique(np.frombuffer(marks, dtype=np.int64), return_counts=True)
    if len(different) < len(marks):
        _check_ids(run, set(different[counts > 1].tolist()))
    return len(marks)


def _check_ids(run: Run, marks: set[int]) -> None:
    """Refuse an id that occurs twice. Only ids whose hash is among ``marks`` can."""
    seen: set[str] = set()
    for item in run.each():
        if item.id in seen:
            where = f"{run.outputs_file}, line {item.line}"
            raise ValueError(f"{where} has the id {item.id!r} of an earlier line: ids must differ")
        if hash(item.id) in marks:
            seen.add(item.id)


def drawn(runs: Sequence[Run], total: int, count: int, seed: int = 1) -> list[tuple[str, Any, str]]:
    """Draw ``count`` of the ``total`` items at random, or take all; in the order of the files."""
    places = set(Random(seed).sample(range(total), min(count, total)))
    every = ((run, item) for run in runs for item in run.each())
    return [
        (item.id, _source(run, item), item.hypothesis)
        for n, (run, item) in enumerate(every)
        if n in places
    ]


def results(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file of findings."""
    if path.suffix.lower() == tables.PARQUET:
        return ({"score": None} | row for row in tables.rows(path))
    return map(json.loads, text_lines.texts(path))


def _write(path: Path, records: Iterable[dict[str, Any]], schema: Any = None) -> None:
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


def digest(run: Run) -> str:
    """Digest of a run's outputs, which tells whether findings belong to them."""
    found = []
    for path in run.files:
        with path.open("rb") as file:
            found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return found[0] if len(found) == 1 else hashlib.sha256(" ".join(found).encode()).hexdigest()


def _weights(model: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of the weights in a model's folder: another model may lie there later."""
    found = ((file.name, file.stat()) for file in sorted(model.glob("*.safetensors")))
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in found]
