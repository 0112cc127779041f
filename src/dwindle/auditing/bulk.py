"""Audits of whole files: outputs in, a file of findings for each out, going on after a kill.

An item has a ``hypothesis``, and a ``source`` (text) or an ``audio`` (a WAV file, from the folder
of the input). The file is cut into shards of whole blocks of pairs that share batches; when their
findings are joined, the listeners lie beside them. Who makes the shards is an engine of
`dwindle.bulk`: this process or a cluster.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from dwindle.auditing.auditor import Auditor
from dwindle.auditing.deletions import Progress
from dwindle.auditing.listeners import Listeners
from dwindle.auditing.sound import read_wave
from dwindle.bulk import files
from dwindle.bulk.files import FileShards, counted
from dwindle.bulk.shards import Engine, blocks_of_one, digest, make, weights
from dwindle.runfiles import tables
from dwindle.runfiles.outputs import Item
from dwindle.runfiles.run import Run, ears_of


@dataclass(frozen=True)
class Summary:
    """The counts of one or more audited files of outputs."""

    items: int
    alarmed: int
    unread: int
    """Items whose source was longer than the model reads."""
    resumed: int
    """Items that an earlier run had done."""


class Audit(FileShards):
    """The findings of one file of outputs, shard by shard."""

    def __init__(self, run: Run, out: Path, total: int, auditor: Auditor, blocks: int = 1) -> None:
        super().__init__(run, out, total, auditor.block, blocks)
        self.auditor = auditor

    @cached_property
    def fingerprint(self) -> str:
        auditor, ears = self.auditor, asdict(self.auditor.listeners)
        ears["origin"] = {
            k: v for k, v in ears["origin"].items() if k not in ("outputs", "findings")
        }
        models = [(name, weights(name)) for name in auditor.names]
        how = [auditor.batch, auditor.brief, auditor.repair, self.out.suffix]
        return digest([ears, models, self.digest, *how])

    @property
    def done(self) -> bool:
        ears = ears_of(self.out)
        if not self.out.is_file() or not ears.is_file():
            return False
        return Listeners.load(ears).origin.get("findings") == self.fingerprint

    @property
    def schema(self) -> Any:
        return self.auditor.schema

    def read(self, first: int, at: Sequence[int]) -> Iterator[tuple[str, Any, str]]:
        return items(self.run, first, at)

    def records(self, items: Iterator[Any]) -> Iterator[dict[str, Any]]:
        return self.auditor.records(items)

    def join(self) -> None:
        if not self.done:
            own = self.auditor.listeners
            ears = replace(own, origin=own.origin | {"outputs": self.digest})
            ears.save(ears_of(self.out))
            self.join_files()
            made = replace(ears, origin=ears.origin | {"findings": self.fingerprint})
            made.save(ears_of(self.out))
        self.clear()


def shards(files: Sequence[tuple[Run, Path, int]], auditor: Auditor) -> list[Audit]:
    """Files of outputs, each with its findings and its number of items, cut for ``auditor``."""
    blocks = blocks_of_one((total for _, _, total in files), auditor.block)
    return [Audit(run, out, total, auditor, blocks) for run, out, total in files]


def audit(
    files: Sequence[Audit], engine: Engine, progress: Progress = lambda stage, done, total: None
) -> Summary:
    """Write the findings of every output of ``files``, a record each, in order, on any engine."""
    resumed = make(files, engine, lambda done, total: progress("auditing", done, total))
    items_done = alarmed = unread = 0
    for record in (record for file in files for record in results(file.out)):
        items_done += 1
        alarmed += record["alarm"]
        unread += "unread" in record
    return Summary(items_done, alarmed, unread, resumed)


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
    """Count the items by reading every one; sounds must be there."""
    return counted(run, lambda: _seen(run))


def _seen(run: Run) -> Iterator[Item]:
    for item in run.each():
        if item.source is None and not (sound := _sound(run, item)).is_file():
            raise ValueError(
                f"{run.outputs_file}, line {item.line} names {sound}, which is not there: check "
                "its name"
            )
        yield item


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
    empty = {"score": None} if path.suffix.lower() == tables.PARQUET else {}
    return (empty | record for record in files.results(path))
