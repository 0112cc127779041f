"""Text files by line, plain or ``.gz``: read one line at a time, and written whole or not at all.

A line ends with a newline character and nothing else (not, say, with U+2028). Knows nothing of what
lines mean.
"""

import contextlib
import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

PACKED = ".gz"


def ending(path: Path) -> str:
    """The ending of a file's name in small letters, ``.tsv`` for ``a.tsv`` and for ``a.TSV.gz``."""
    plain = path.with_suffix("") if path.suffix.lower() == PACKED else path
    return plain.suffix.lower()


def raw(path: Path, at: int = 0) -> Iterator[bytes]:
    """The lines as they are, with their ends; the last may have none. ``at``: the first byte."""
    if path.suffix.lower() != PACKED:
        with path.open("rb") as file:
            file.seek(at)
            yield from file
        return
    try:
        with gzip.open(path) as packed:
            packed.seek(at)
            yield from packed
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is a broken gz file ({error}): get it again") from None


def texts(path: Path, first: int = 0, at: int = 0) -> Iterator[str]:
    """The lines as text without their ends, and without a byte order mark.

    ``first``: how many lines to leave out, and ``at`` the byte at which the next one begins
    (`starts` tells).
    """
    return (decoded(line, path, number) for number, line in enumerate(raw(path, at), first + 1))


def starts(path: Path, every: int) -> Iterator[int]:
    """The byte at which the first line begins, the line ``every`` lines later, and so on."""
    at = 0
    for number, line in enumerate(raw(path)):
        if number % every == 0:
            yield at
        at += len(line)


def decoded(line: bytes, path: Path, number: int) -> str:
    """A line as text without its end; ``number`` counts from 1."""
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, line {number} is not UTF-8 ({error.reason}): save it as UTF-8"
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, packed if its name says so. It is there whole when the block ends well, else
    not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with part.open("wb") as file:
            if path.suffix.lower() == PACKED:
                with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                    yield cast("IO[bytes]", packed)
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
