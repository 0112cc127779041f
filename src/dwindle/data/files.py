"""Text files by line, without holding them: what the readers share. Knows no corpus.

A file is memory-mapped and every sixteenth line's place is remembered, so 35 million lines cost 20
MB and a line is reached at once. A ``.gz`` file is unpacked once into a nameless temporary file.
"""

import gzip
import mmap
import shutil
import tempfile
import warnings
import zlib
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, overload

from dwindle.data.example import Split
from dwindle.data.settings import DataSettings

_STRIDE = 16
_BLOCK = 1 << 20
_DEV = ("dev", "val", "valid", "validation")


class Lines(Sequence[str]):
    """The lines of a UTF-8 file, plain or ``.gz``, separated by newlines alone (not U+2028)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.blank = array("Q")
        """The lines without a visible character."""
        with _opened(path) as file:
            self._places, self._length = self._index(file)
            # An empty file cannot be mapped; an empty bytes object has all that is needed of one.
            self._bytes: mmap.mmap | bytes = (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self._length else b""
            )

    def _index(self, file: IO[bytes]) -> tuple["array[int]", int]:
        """The starts of every sixteenth line, and the number of lines. Every line is decoded here,
        so that a bad byte is met before training and not in the middle of it."""
        places, start, number = array("Q"), 0, -1
        for number, line in enumerate(file):
            try:
                text = line.decode(_encoding(number))
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{self.path}, line {number + 1} is not UTF-8 ({error.reason}): save it as "
                    "UTF-8"
                ) from None
            if not text.strip():
                self.blank.append(number)
            if number % _STRIDE == 0:
                places.append(start)
            start += len(line)
        return places, number + 1

    def __len__(self) -> int:
        return self._length

    def __reduce__(self) -> tuple[type["Lines"], tuple[Path]]:
        return Lines, (self.path,)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = range(len(self))[index]
        start = self._places[index // _STRIDE]
        for _ in range(index % _STRIDE):
            start = self._bytes.find(b"\n", start) + 1
        end = self._bytes.find(b"\n", start)
        line = self._bytes[start : end if end >= 0 else len(self._bytes)]
        return line.decode(_encoding(index)).removesuffix("\r")


def _encoding(number: int) -> str:
    """Only a file's first line may begin with a byte order mark."""
    return "utf-8-sig" if number == 0 else "utf-8"


def _opened(path: Path) -> IO[bytes]:
    if path.suffix != ".gz":
        return path.open("rb")
    plain = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        with gzip.open(path) as packed:
            shutil.copyfileobj(packed, plain, _BLOCK)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        plain.close()
        raise ValueError(f"{path} is a broken gz file ({error}): get it again") from None
    plain.seek(0)
    return plain


def folder(settings: DataSettings, advice: str) -> Path:
    """The path that a corpus needs; ``advice`` says what to put there."""
    if settings.path is None:
        raise ValueError(f"{settings.corpus} needs a path: {advice}")
    path = Path(settings.path).expanduser()
    if not path.exists():
        raise ValueError(f"there is no {path}: {advice}")
    return path


def split_names(split: Split) -> tuple[str, ...]:
    """Names that the files of a split may have."""
    return _DEV if split == "dev" else (split,)


def split_file(
    folder: Path, split: Split, endings: Sequence[str], more: Sequence[str] = ()
) -> Path | None:
    """The file of a split in a folder: ``train.ENDING``, ``val.ENDING``, ..., also ``.gz``."""
    names = (*split_names(split), *more)
    found = [
        folder / f"{name}.{end}{gz}" for name in names for end in endings for gz in ("", ".gz")
    ]
    return next((file for file in found if file.is_file()), None)


def kept(
    places: int, empty: Sequence[int], split: Split, where: Callable[[int], str]
) -> Sequence[int]:
    """All places but the empty ones. A training pair without a source or without a target teaches
    nothing: it is left out, with a count. A dev or test item is never left out in silence: scores
    would be of another set."""
    if not empty:
        return range(places)
    if split != "train":
        raise ValueError(
            f"{where(empty[0])} has an empty source or reference: a {split} item needs both"
        )
    if len(empty) == places:
        raise ValueError(
            f"every pair has an empty source or reference, such as {where(empty[0])}: check the "
            "columns"
        )
    warnings.warn(
        f"{len(empty)} of {places} training pairs have an empty source or reference and are left "
        f"out, the first is {where(empty[0])}",
        stacklevel=2,
    )
    left_out = set(empty)
    return array("Q", (place for place in range(places) if place not in left_out))
