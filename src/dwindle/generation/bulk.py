"""Outputs for whole files: sources in, the same items with hypotheses out, going on after a kill.

``Scribe`` is the model that writes them, ``Writing`` the shards of one file. Only the outputs are
made: what they covered of their sources is the business of ``decode``, for the corpus of a run.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from dwindle.bulk.batches import batches, together
from dwindle.bulk.files import FileShards, counted, results
from dwindle.bulk.shards import Engine, blocks_of_one, digest, make, weights
from dwindle.generation.decode import parted
from dwindle.generation.generate import prepared, search
from dwindle.generation.interactive import Author
from dwindle.generation.settings import DecodingSettings
from dwindle.models.place import place
from dwindle.models.subword import PromptCodec
from dwindle.runfiles import names, outputs, whole
from dwindle.runfiles.outputs import Item
from dwindle.runfiles.run import Run

AHEAD = 16
"""Number of batches whose sources are sorted by length together."""
CUT = "cut"
"""Column that is true where the source was longer than the model reads."""
_FILES = ("*.safetensors", "*.bin", "*.json", "*.txt", "*.model")
"""Files of a model's folder that decide what it writes."""


class Scribe:
    """A model that writes an output for each source, opened at the first one.

    Args:
        model: the folder of a run or of a saved model, or a name on the hub.
        changes: decoding settings that differ from those of the run, or of the model's makers.
    """

    def __init__(self, model: str | Path, changes: Mapping[str, Any] | None = None) -> None:
        self.model = str(model)
        # blocks are counted before the model is opened, which knows the other settings
        usual = DecodingSettings.batch_size
        self.changes = {"batch_size": usual, **(changes or {})}
        DecodingSettings(batch_size=self.changes["batch_size"])  # refuses a wrong one now
        self._author: Author | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_author": None}

    @property
    def block(self) -> int:
        """Number of sources that share batches."""
        return AHEAD * int(self.changes["batch_size"])

    @property
    def told(self) -> list[Any]:
        """Everything that decides an output, but for its source."""
        where = place(self.model)
        recipe = Run(Path(self.model)).settings.get("decoding")
        return [str(where), weights(where, _FILES), recipe, dict(self.changes)]

    def texts(self, items: Sequence[Item]) -> list[tuple[str, bool]]:
        """The output for each item of a block, and whether its source was cut."""
        author = self._opened()
        settings = replace(author.usual, **self.changes)

        def job(some: list[Item]) -> list[tuple[str, bool]]:
            rows = [author.codec.encode(item.source) for item in some]
            batch = author.codec.collate(rows)
            author.check_room(batch, settings)
            tokens = search(author.model, batch, settings, author.codec)
            written = author.codec.decode(tokens.cpu(), batch)
            return [
                (parted(text, item.references), bool(row["cut"]))
                for text, item, row in zip(written, some, rows, strict=True)
            ]

        # the model is not shown a text without a character, as in ``decode``
        read = [item for item in items if (item.source or "").strip()]
        with prepared(author.model, settings), torch.random.fork_rng(enabled=settings.sample):
            if settings.sample:  # so that it does not matter who draws
                torch.manual_seed(zlib.crc32(items[0].id.encode()))
            found = dict(
                zip(
                    (item.id for item in read),
                    together(read, settings.batch_size, lambda item: -len(item.source or ""), job),
                    strict=True,
                )
            )
        return [found.get(item.id, ("", False)) for item in items]

    def _opened(self) -> Author:
        if self._author is None:
            self._author = Author(self.model)
            if isinstance(self._author.codec, PromptCodec):
                raise ValueError(
                    f"{self.model} writes on from a prompt, one at a time: take an encoder-decoder"
                )
            device = torch.accelerator.current_accelerator(check_available=True)
            self._author.model.to(device or "cpu")
        return self._author


class Writing(FileShards):
    """The outputs for one file of sources, shard by shard. A small file beside them says what they
    were made of."""

    def __init__(self, run: Run, out: Path, total: int, scribe: Scribe, blocks: int = 1) -> None:
        super().__init__(run, out, total, scribe.block, blocks)
        self.scribe = scribe

    @cached_property
    def fingerprint(self) -> str:
        return digest([*self.scribe.told, self.digest, self.out.suffix])

    @property
    def record(self) -> Path:
        """The file that says what was made."""
        return self.out.with_suffix(f".{names.DECODING}")

    @property
    def done(self) -> bool:
        return self.out.is_file() and self._made == self.fingerprint

    @property
    def _made(self) -> str | None:
        if not self.record.is_file():
            return None
        found: str | None = whole.read_json(self.record, "delete it").get("fingerprint")
        return found

    def check(self) -> None:
        """Refuse to write over something else."""
        if self.out.exists() and not self.done:
            raise ValueError(
                f"{self.out} is there already, of other sources, another model or other settings: "
                "name another folder with --out"
            )

    @cached_property
    def schema(self) -> Any:
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import parquet

        own = parquet.read_schema(self.run.outputs_file)
        added = [("hypothesis", pa.string()), (CUT, pa.bool_())]
        kept = [field for field in own if field.name not in dict(added)]
        return pa.schema([*kept, *(pa.field(*one) for one in added)])

    def read(self, first: int, at: Sequence[int]) -> Iterator[tuple[Item, dict[str, Any]]]:
        return outputs.sources(self.run.outputs_file, first, *at)

    def records(self, items: Iterator[Any]) -> Iterator[dict[str, Any]]:
        for some in batches(items, self.scribe.block):
            written = self.scribe.texts([item for item, _ in some])
            for (_, record), (text, cut) in zip(some, written, strict=True):
                yield record | {"hypothesis": text} | ({CUT: True} if cut else {})

    def join(self) -> None:
        if not self.done:
            counts = {"items": self.total, "truncated": 0, "empty": 0}
            for record in (one for n in range(self.count) for one in results(self.file(n))):
                counts["truncated"] += CUT in record
                counts["empty"] += not record["hypothesis"].strip()
            whole.write_json(self.record, {"fingerprint": self.fingerprint} | counts)
            self.join_files()
        self.clear()


@dataclass(frozen=True)
class WritingSummary:
    """The counts of one or more files of outputs."""

    items: int
    truncated: int
    """Sources that were longer than the model reads."""
    empty: int
    """Outputs without a word."""
    resumed: int
    """Items that an earlier run had done."""


def checked(path: Path) -> int:
    """Count the sources by reading every one."""

    def each() -> Iterator[Item]:
        for item, record in outputs.sources(path):
            if CUT in record:
                raise ValueError(
                    f"{path} has a column {CUT!r}, which is written here: rename it, or leave it "
                    "out"
                )
            yield item

    return counted(path, each)


def write(
    files: Sequence[Path],
    folder: Path,
    scribe: Scribe,
    engine: Engine,
    progress: Any = lambda stage, done, total: None,
) -> WritingSummary:
    """Write the outputs for every file into ``folder``, under its name and in its format."""
    totals = [checked(path) for path in files]
    blocks = blocks_of_one(totals, scribe.block)
    work = [
        Writing(Run(path), folder / path.name, total, scribe, blocks)
        for path, total in zip(files, totals, strict=True)
    ]
    for one in work:
        one.check()
    resumed = make(work, engine, lambda done, total: progress("generating", done, total))
    told = [whole.read_json(one.record, "delete it") for one in work]
    truncated, empty = (sum(one[name] for one in told) for name in ("truncated", "empty"))
    return WritingSummary(sum(totals), truncated, empty, resumed)
