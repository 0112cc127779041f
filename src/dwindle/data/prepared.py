"""Texts that take time to read, kept: a split is read, split into sentences and tokenised once, on
all cores, and from then on mapped from the user's cache. What is kept is named after the settings
and all that it was made of.
"""

import json
import mmap
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from hashlib import blake2b, file_digest
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import dwindle
from dwindle.data import hub, presumm
from dwindle.data.example import Example, Split
from dwindle.data.settings import DataSettings
from dwindle.system import cache, machine

_TEXTS, _PLACES = "texts.jsonl", "places.npy"
_CHUNK = 64
_PIECE = 1 << 20

Read = Callable[[DataSettings, Split], Sequence[Example]]


def prepared(settings: DataSettings, split: Split, read: Read) -> "Prepared":
    """The examples that ``read`` gives, filtered if the settings say so, from the cache. Faults are
    found while they are read for the first time."""
    path = None if settings.path is None else Path(settings.path).expanduser()
    if path is not None and not path.exists():  # a name on the hub, or a mistake
        path = None
    # What the hub's library holds is there at once, and others are read only if they are not kept.
    given = read(settings, split) if path is None or hub.is_local(path) else None
    key = [
        asdict(settings) | {"size": settings.size.of(split)},
        split,
        _made_of(given, path),
        dwindle.__version__,
    ]

    def make(folder: Path) -> None:
        raw = read(settings, split) if given is None else given
        _write(folder, presumm.filtered(raw, settings, split) if settings.presumm else raw)

    return Prepared(cache.kept("texts", key, make))


class Prepared(Sequence[Example]):
    """The examples of a folder of the cache."""

    def __init__(self, folder: Path) -> None:
        import numpy as np

        self.folder = folder
        self._places = np.load(folder / _PLACES, mmap_mode="r")
        with (folder / _TEXTS).open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._places) - 1

    def __reduce__(self) -> tuple[type["Prepared"], tuple[Path]]:
        return Prepared, (self.folder,)

    @property
    def fingerprint(self) -> str:
        return self.folder.name

    @property
    def lines(self) -> Iterator[bytes]:
        """All examples as they are written, in pieces."""
        return (self._bytes[start : start + _PIECE] for start in range(0, len(self._bytes), _PIECE))

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | Sequence[Example]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        start, end = self._places[(place := range(len(self))[index]) : place + 2]
        id, source, references = json.loads(self._bytes[start:end])
        return Example(id, source, tuple(references))


def fingerprint(examples: Sequence[Example]) -> str:
    """Equal for the same texts in the same order."""
    known: str | None = getattr(examples, "fingerprint", None)
    if known is not None:
        return known
    found = blake2b(digest_size=12)
    for example in examples:
        shape = None if example.image is None else example.image.shape
        found.update(json.dumps([example.id, example.source, example.references, shape]).encode())
    return found.hexdigest()


def content(examples: Sequence[Example]) -> str:
    """Equal for the same texts in the same order, wherever they were read from and by whichever
    version. Of images only the names count."""
    found = blake2b(digest_size=12)
    lines = (
        examples.lines if isinstance(examples, Prepared) else _chunk(examples, (0, len(examples)))
    )
    for line in lines:
        found.update(line)
    return found.hexdigest()


def _made_of(given: Sequence[Example] | None, path: Path | None) -> Any:
    """A digest of all that these examples are made from, which tells them from others."""
    contents: Callable[[], str] | None = getattr(given, "contents", None)
    if contents is not None:
        return contents()
    return fingerprint(given or []) if path is None else _stamp(path)


def _stamp(path: Path) -> list[Any]:
    """The files at a path, in linked folders too: their names and the digests of what they hold.
    Sizes and dates would be quicker to ask for, but a copy can keep both."""
    told = []
    for file in sorted(_files(path)):
        with file.open("rb") as opened:
            told.append([str(file.relative_to(path)), file_digest(opened, "blake2b").hexdigest()])
    return told


def _files(path: Path) -> Iterator[Path]:
    """All files at or below a path. A link that leads back up is followed once."""
    if not path.is_dir():
        yield path
        return
    seen: set[str] = set()
    for folder, folders, names in os.walk(path, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        yield from (file for name in names if (file := Path(folder, name)).is_file())


def _write(folder: Path, examples: Sequence[Example]) -> None:
    import numpy as np

    lengths = [0]
    with (folder / _TEXTS).open("wb") as file:
        for line in _lines(examples):
            lengths.append(file.write(line))
    np.save(folder / _PLACES, np.cumsum(lengths, dtype=np.int64))


def _lines(examples: Sequence[Example]) -> Iterator[bytes]:
    """Every example as JSON, in order, by as many processes as there are cores."""
    cuts = [*range(0, len(examples), _CHUNK), len(examples)]
    spans, workers = list(pairwise(cuts)), machine.cores()
    if workers == 1 or len(spans) <= 2 * workers:
        for span in spans:
            yield from _chunk(examples, span)
        return
    # With fork the examples are inherited, not copied. The children only read and tokenise: no
    # thread, no BLAS.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pool = context.Pool(workers, _share, (examples,))
    with pool:
        for lines in pool.imap(_shared_chunk, spans):
            yield from lines


_shared: Sequence[Example] = ()


def _share(examples: Sequence[Example]) -> None:
    """In a worker: keep what all its chunks are cut from."""
    global _shared
    _shared = examples


def _shared_chunk(span: tuple[int, int]) -> list[bytes]:
    return _chunk(_shared, span)


def _chunk(examples: Sequence[Example], span: tuple[int, int]) -> list[bytes]:
    told = ((e.id, e.source, e.references) for e in map(examples.__getitem__, range(*span)))
    return [json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in told]
