"""Files of ``torch.save``, of today (archives) and of before PyTorch 1.6 or Python 3, without
PyTorch's own unpickler.

Written by hand for three reasons: numbers are counted before memory is taken for them, files of
Python 2 are read without being written anew, and the checksums of an archive are checked, which
``torch.load`` does not do. Knows how numbers lie in a file; what a pickle may hold is known to
``safe``.
"""

import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from dwindle.checkpoints import safe

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
"""The first two pickles of an old file. The third is about the machine that wrote it."""
_STORAGES = {
    **{"DoubleStorage": torch.float64, "FloatStorage": torch.float32, "HalfStorage": torch.float16},
    **{"BFloat16Storage": torch.bfloat16, "LongStorage": torch.int64, "IntStorage": torch.int32},
    **{"ShortStorage": torch.int16, "CharStorage": torch.int8, "ByteStorage": torch.uint8},
    "BoolStorage": torch.bool,
}
_PIECE = 1 << 20

Numbers = Callable[[torch.dtype, str, int], Tensor]
"""The numbers of a storage by their type, its key and their count, as one row."""


def read(path: Path) -> Any:
    """The content of a file of ``torch.save``, on the CPU."""
    return safe.said(
        path, "weights", lambda: _archive(path) if zipfile.is_zipfile(path) else _old(path)
    )


def _archive(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        if sum(entry.file_size for entry in entries.values()) > path.stat().st_size:
            raise ValueError("compressed, or parts of it lie over one another")
        inside = next(name for name in entries if name.rpartition("/")[2] == "data.pkl")
        folder = inside.removesuffix("data.pkl")
        if f"{folder}byteorder" in entries and archive.read(f"{folder}byteorder") != b"little":
            raise ValueError("written by a machine whose numbers stand the other way round")
        storages: dict[str, Tensor] = {}

        def numbers(kind: torch.dtype, key: str, count: int) -> Tensor:
            if key not in storages:
                if entries[f"{folder}data/{key}"].file_size != count * kind.itemsize:
                    raise ValueError("a storage of another size")
                storages[key] = torch.empty(count, dtype=kind)
                with archive.open(f"{folder}data/{key}") as stream:
                    _fill(storages[key], stream)
            return storages[key]

        with archive.open(inside) as stream:
            safe.check(stream, entries[inside].file_size)
        with archive.open(inside) as stream:
            return _Reader(stream, numbers).load()


def _old(path: Path) -> Any:
    """Five pickles, then every storage: how many numbers it has, and the numbers."""
    left = path.stat().st_size
    storages: dict[str, Tensor] = {}

    def numbers(kind: torch.dtype, key: str, count: int) -> Tensor:
        nonlocal left
        if key not in storages:
            left -= count * kind.itemsize
            if left < 0 or count < 0:
                raise ValueError("more numbers than the file has")
            storages[key] = torch.empty(count, dtype=kind)  # filled below
        return storages[key]

    with path.open("rb") as file:
        if _next(file) != _MAGIC or _next(file) != _PROTOCOL:
            raise ValueError("no file of PyTorch")
        if not safe.settings(_next(file)).get("little_endian", True):
            raise ValueError("written by a machine whose numbers stand the other way round")
        content = _next(file, numbers)
        keys = _next(file)
        if set(keys) != set(storages):
            raise ValueError("other storages than announced")
        for key in keys:
            if struct.unpack("<q", file.read(8))[0] != len(storages[key]):
                raise ValueError("a storage of another size")
            _fill(storages[key], file)
    return content


def _next(file: IO[bytes], numbers: Numbers | None = None) -> Any:
    """The pickle at the position of a file, which is then behind it."""
    start = file.tell()
    file.seek(0, 2)
    size = file.tell() - start
    file.seek(start)
    safe.check(file, size)
    end = file.tell()
    file.seek(start)
    content = _Reader(file, numbers).load()
    file.seek(end)
    return content


class _Reader(safe.PickleReader):
    """An unpickler that also knows tensors."""

    def __init__(self, stream: IO[bytes], numbers: Numbers | None) -> None:
        kinds = {f"torch.{name}": kind for name, kind in _STORAGES.items()}
        super().__init__(
            stream,
            {
                **kinds,
                **{str(kind): kind for kind in kinds.values()},
                "torch.Size": lambda sizes=(): sizes,
                "torch._utils._rebuild_tensor": _tensor,
                "torch._utils._rebuild_tensor_v2": _tensor,
                "torch._utils._rebuild_parameter": lambda value, *_: value,
                "torch._utils._rebuild_parameter_with_state": lambda value, *_: value,
            },
        )
        self._numbers = numbers

    def persistent_load(self, stored: Any) -> Tensor:
        """A storage: ``("storage", type, key, device, count)``, in old files also the part of it
        that is a view."""
        what, kind, key, _, count, *view = stored
        if (
            what != "storage"
            or not isinstance(kind, torch.dtype)
            or not isinstance(count, int)
            or not self._numbers
        ):
            raise pickle.UnpicklingError("no storage")
        found = self._numbers(kind, str(key), count)
        if found.dtype != kind or len(found) != count:
            raise pickle.UnpicklingError("one storage under two types")
        if view and view[0] is not None:
            _, start, length = view[0]
            return found[start : start + length]
        return found


def _tensor(
    storage: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any
) -> Tensor:
    """A view of a storage; one with more numbers than that would take their memory when copied."""
    found = torch.as_strided(storage, size, stride, storage.storage_offset() + offset)
    if found.numel() > len(storage):
        raise ValueError("a tensor that is larger than its storage")
    return found


def _fill(numbers: Tensor, stream: IO[bytes]) -> None:
    """Read all of ``numbers`` from a stream in pieces: a storage is never held twice."""
    if not len(numbers):
        return
    stored = numbers.view(torch.uint8).numpy()
    for start in range(0, len(stored), _PIECE):
        piece = stream.read(min(_PIECE, len(stored) - start))
        if len(piece) < min(_PIECE, len(stored) - start):
            raise ValueError("it ends early")
        stored[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
    # at the end the checksum is compared
    if isinstance(stream, zipfile.ZipExtFile) and stream.read(1):
        raise ValueError("a storage of another size")
