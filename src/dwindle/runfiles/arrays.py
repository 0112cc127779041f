"""Archives of arrays (``.npz``): written whole or not at all; a damaged one is one sentence.
Nothing is unpickled, and no memory is taken for what a header claims and the file does not hold.
"""

import contextlib
import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dwindle.runfiles import whole

DAMAGED = (
    *(OSError, ValueError, KeyError, EOFError, MemoryError, NotImplementedError, RuntimeError),
    # TokenError and SyntaxError: headers are written as Python
    *(struct.error, zipfile.BadZipFile, zlib.error, tokenize.TokenError, SyntaxError),
)
"""Exceptions that reading a damaged archive may raise."""


_SLACK = 150_000_000
"""Bytes that the arrays of any archive may have, however well they are compressed."""


def write(path: Path, arrays: dict[str, Any], by: Path | None = None) -> None:
    """Write an archive, compressed. ``by``: as in `whole.write`."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    whole.write(path, file.getvalue(), by)


def read(path: str | Path, what: str, remedy: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an archive. ``what`` it should be, and the ``remedy`` if it is not."""
    try:
        with opened(path) as file:
            return {key: file[key] for key in file.files}
    except FileNotFoundError:
        raise
    # AttributeError and TypeError: a lone array, which has no names
    except (*DAMAGED, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is not {what} ({error}): {remedy}") from None


@contextlib.contextmanager
def opened(path: str | Path) -> Iterator[Any]:
    """An archive, open for reading as by ``np.load``. Refused if its arrays would take more than
    twice the size of the file and 150 MB: nothing that is written here is compressed so well."""
    with Path(path).open("rb") as file:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                _check(archive, Path(path).stat().st_size)
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            yield arrays


def _check(archive: zipfile.ZipFile, size: int) -> None:
    """Raise `ValueError` if arrays are larger than the archive or its entries can hold."""
    entries = archive.infolist()
    if sum(entry.file_size for entry in entries) > 2 * size + _SLACK:
        raise ValueError(
            f"it would take {sum(entry.file_size for entry in entries):,} bytes in memory"
        )
    for entry in entries:
        if entry.filename.endswith(".npy"):
            with archive.open(entry) as stream:
                major, _ = np.lib.format.read_magic(stream)
                shape, _, dtype = getattr(np.lib.format, f"read_array_header_{major}_0")(stream)
            if math.prod(shape) * dtype.itemsize > entry.file_size:
                raise ValueError(f"{entry.filename} ends before its array does")
