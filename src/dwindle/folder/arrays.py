"""Archives of arrays (``.npz``): written whole or not at all; a damaged one is one sentence. Nothing is unpickled."""

import io
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dwindle.folder import whole

DAMAGED = (
    *(OSError, ValueError, KeyError, EOFError, MemoryError, NotImplementedError, RuntimeError),
    *(struct.error, zipfile.BadZipFile, zlib.error, tokenize.TokenError, SyntaxError),  # headers are Python's dicts
)
"""What reading a damaged archive may raise."""


def write(path: Path, arrays: dict[str, Any], by: Path | None = None) -> None:
    """Write an archive, compressed. ``by``: as in `whole.write`."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    whole.write(path, file.getvalue(), by)


def read(path: str | Path, what: str, remedy: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an archive. ``what`` it should be, and the ``remedy`` if it is not."""
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except FileNotFoundError:
        raise
    except (*DAMAGED, AttributeError, TypeError) as error:  # the last two: a lone array, which has no names
        raise ValueError(f"{path} is not {what} ({error}): {remedy}") from None
