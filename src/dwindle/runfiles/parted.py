"""A file of outputs in two parts, kept and dropped, each in the format of the file: lines of text
stay as they are, byte by byte, and Parquet and ``datasets`` keep their columns and types.

Items are copied one at a time, so memory does not grow with them. A part is written whole or not at
all. Knows nothing of why an item is dropped.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dwindle.runfiles import tables, text_lines
from dwindle.runfiles.run import AlignedRun, Run


@dataclass(frozen=True)
class Parted:
    """Files for the items that are kept, and for those that are dropped; None: not written.

    For line-aligned files these are the beginnings of names: ``clean`` means ``clean.en`` and
    ``clean.fr`` for files that end in ``.en`` and ``.fr``.
    """

    keep: Path | None = None
    drop: Path | None = None

    def kept(self, run: Run) -> list[Path]:
        """The files for what is kept."""
        return _named(run, self.keep) if self.keep else []

    def dropped(self, run: Run) -> list[Path]:
        """The files for what is dropped."""
        return _named(run, self.drop) if self.drop else []

    def files(self, run: Run) -> list[Path]:
        """Every file that is written."""
        return [*self.kept(run), *self.dropped(run)]

    def check(self, run: Run, others: Sequence[Path] = ()) -> None:
        """Refuse names of another format, and names that ``others`` have or that are read."""
        taken = [path.resolve() for path in (*run.files, run.outputs_file, *others)]
        for file in self.files(run):
            source, wanted = run.outputs_file, text_lines.ending(run.outputs_file)
            if (
                not isinstance(run, AlignedRun)
                and not source.is_dir()
                and text_lines.ending(file) != wanted
            ):
                raise ValueError(
                    f"{file} gets the format of {source.name}: end its name in {wanted}"
                )
            if file.resolve() in taken:
                raise ValueError(f"{file} is named twice: give what is written a name of its own")
            if source.is_dir() and file.exists():
                raise ValueError(f"{file} is there already: name a folder that is not")
            if not file.parent.is_dir():
                raise ValueError(f"there is no folder {file.parent}: make it first")
            taken.append(file.resolve())

    def write(self, run: Run, dropped: Iterable[bool]) -> None:
        """Copy every item of ``run`` to one of the parts; ``dropped`` says for each, in order, if
        it is dropped."""
        path = run.outputs_file
        if path.is_dir():
            self._dataset(path, dropped)
        elif path.suffix.lower() == tables.PARQUET:
            self._parquet(path, dropped)
        else:
            self._lines(run, dropped)

    def _lines(self, run: Run, dropped: Iterable[bool]) -> None:
        with ExitStack() as stack:
            kept, gone = (
                [stack.enter_context(text_lines.writing(file)) for file in files]
                for files in (self.kept(run), self.dropped(run))
            )
            records = _records(run)
            if _has_heading(run):
                heading = next(records, ())
                for files in (kept, gone):
                    for file, line in zip(files, heading, strict=bool(files)):
                        file.write(line)
            for record, drop in zip(records, dropped, strict=True):
                files = gone if drop else kept
                for file, line in zip(files, record, strict=bool(files)):
                    file.write(line if line.endswith(b"\n") else line + b"\n")

    def _parquet(self, path: Path, dropped: Iterable[bool]) -> None:
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import parquet

        with ExitStack() as stack:
            source = stack.enter_context(parquet.ParquetFile(path))
            writers = {
                drop: stack.enter_context(parquet.ParquetWriter(file, source.schema_arrow))
                for drop, part in ((False, self.keep), (True, self.drop))
                if part
                for file in [stack.enter_context(text_lines.writing(part))]
            }
            told = iter(dropped)
            for batch in source.iter_batches():
                marks = list(islice(told, len(batch)))
                for drop, writer in writers.items():
                    chosen = batch.filter(pa.array([mark == drop for mark in marks]))
                    if len(chosen):
                        writer.write_batch(chosen)

    def _dataset(self, path: Path, dropped: Iterable[bool]) -> None:
        import datasets  # type: ignore[import-untyped]

        marks = list(dropped)
        for drop, part in ((False, self.keep), (True, self.drop)):
            if part is None:
                continue
            growing = part.with_name(f".{part.name}.part")
            shutil.rmtree(growing, ignore_errors=True)
            places = [n for n, mark in enumerate(marks) if mark == drop]
            datasets.load_from_disk(str(path)).select(places).save_to_disk(str(growing))
            growing.rename(part)


def _named(run: Run, part: Path) -> list[Path]:
    """The files of one part: a single one, or one for each line-aligned file."""
    if not isinstance(run, AlignedRun):
        return [part]
    endings = ["".join(_endings(file)) for file in run.files]
    distinct = all(endings) and len(set(endings)) == len(endings)
    return [
        part.with_name(part.name + (e if distinct else f".{f.name}"))
        for e, f in zip(endings, run.files, strict=True)
    ]


def _endings(file: Path) -> list[str]:
    """The ending of a name, with ``.gz`` if it has that too."""
    return file.suffixes[-2:] if file.suffix.lower() == text_lines.PACKED else file.suffixes[-1:]


def _has_heading(run: Run) -> bool:
    return tables.is_text(run.outputs_file) and not isinstance(run, AlignedRun)


def _records(run: Run) -> Iterator[tuple[bytes, ...]]:
    """The bytes of each item in each file; of CSV and TSV those of the heading first."""
    if _has_heading(run):
        return ((line,) for line, _ in tables.parsed(run.outputs_file))
    return zip(*map(text_lines.raw, run.files), strict=True)
