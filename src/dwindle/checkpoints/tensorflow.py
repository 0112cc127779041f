"""``Bundle``: the variables of a TensorFlow checkpoint (``NAME.index``, ``NAME.data-...``).

The index is a sorted table as in LevelDB: blocks of keys that share prefixes, a block that points
to them, a footer. Its values are protocol buffers: type, shape, and where in which data file the
numbers stand. Only what these files need of either format is read here: no compression, no
partitioned variables.
"""

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TRAILER = 5
"""After each block: one byte for its compression, four of a checksum."""
_LONGEST_NAMES = 16_000_000
"""Bytes of all names together, beyond the index's own size: a name can repeat the one before at no
cost in the file."""
_MOST_ENTRIES = 100_000
_MOST_DIMENSIONS = 32
_LONGEST_MESSAGE = 4096
"""Largest number of bytes that describe one variable."""
_VARINT = 10
"""Number of bytes of the longest number."""
_TYPES = {1: torch.float32, 2: torch.float64, 3: torch.int32, 9: torch.int64, 19: torch.float16}
"""TensorFlow's numbers of types."""


@dataclass(frozen=True)
class _Entry:
    """Type, shape and place of a variable."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int


class Bundle(Mapping[str, Tensor]):
    """The variables of a checkpoint by name. Each is read when it is asked for."""

    def __init__(self, index: Path) -> None:
        """``index``: the file whose name ends with ``.index``."""
        self.index = index
        try:
            table = dict(_table(index.read_bytes()))
            self._shards = _number(_fields(table.pop(b"")), 1) or 1
            self._entries = {key.decode(): _entry(value) for key, value in table.items()}
        except (ValueError, KeyError, IndexError, struct.error, UnicodeDecodeError):
            raise ValueError(
                f"{index} is not a whole index of a TensorFlow checkpoint: get it again"
            ) from None

    def __getitem__(self, name: str) -> Tensor:
        entry = self._entries[name]
        if entry.dtype not in _TYPES:
            raise ValueError(
                f"{self.index}: {name} is of a type that is not read here (number {entry.dtype})"
            )
        file = self.index.with_suffix(f".data-{entry.shard:05d}-of-{self._shards:05d}")
        if not file.is_file():
            raise ValueError(
                f"there is no {file}: a TensorFlow checkpoint is its .index and all its .data files"
            )
        dtype = _TYPES[entry.dtype]
        if math.prod(entry.shape) * dtype.itemsize != entry.size:
            raise ValueError(
                f"{self.index}: the size of {name} does not fit its shape: get it again"
            )
        # before memory is taken for what is not there
        if file.stat().st_size < entry.offset + entry.size:
            raise ValueError(f"{file} ends before {name} does: it is cut off; get it again")
        if (
            sum(e.size for e in self._entries.values() if e.shard == entry.shard)
            > file.stat().st_size
        ):
            raise ValueError(f"{file} is shorter than its variables, so they overlap: get it again")
        with file.open("rb") as data:
            data.seek(entry.offset)
            stored = bytearray(entry.size)
            data.readinto(stored)
        return (
            torch.frombuffer(stored, dtype=dtype).reshape(entry.shape)
            if stored
            else torch.empty(entry.shape)
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _table(stored: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of all blocks, as many as a checkpoint can have."""
    length = count = 0
    for key, value in _entries(stored):
        length, count = length + len(key), count + 1
        if length > len(stored) + _LONGEST_NAMES or count > _MOST_ENTRIES:
            raise ValueError("more names than a checkpoint has")
        yield key, value


def _entries(stored: bytes) -> Iterator[tuple[bytes, bytes]]:
    footer = stored[-_FOOTER:]
    if len(footer) < _FOOTER or struct.unpack("<Q", footer[-8:])[0] != _MAGIC:
        raise ValueError("no table")
    at = 0
    for _ in range(2):  # where the block of filters stands; nobody needs it
        _, at = _varint(footer, at)
    offset, at = _varint(footer, at)
    size, _ = _varint(footer, at)
    left = len(stored)
    for _, handle in _block(stored, offset, size):
        offset, at = _varint(handle, 0)
        size, _ = _varint(handle, at)
        left -= size
        if left < 0:
            raise ValueError("blocks that overlap")
        yield from _block(stored, offset, size)


def _block(stored: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of one block. A key leaves out the bytes it shares with the one before."""
    whole = stored[offset : offset + size + _TRAILER]
    if len(whole) < size + _TRAILER or whole[size] != 0:
        raise ValueError("cut off, or compressed")
    restarts = struct.unpack("<I", whole[size - 4 : size])[0]
    end, at, key = size - 4 * (restarts + 1), 0, b""
    while at < end:
        shared, at = _varint(whole, at)
        new, at = _varint(whole, at)
        length, at = _varint(whole, at)
        key = key[:shared] + whole[at : at + new]
        yield key, whole[at + new : at + new + length]
        at += new + length


def _entry(message: bytes) -> _Entry:
    fields = _fields(message)
    if 7 in fields:
        raise ValueError("partitioned")
    dimensions = _fields(fields.get(2, [b""])[0]).get(2, [])  # type: ignore[arg-type]
    if len(dimensions) > _MOST_DIMENSIONS:
        raise ValueError("no shape")
    shape = tuple(_number(_fields(d), 1) for d in dimensions)  # type: ignore[arg-type]
    return _Entry(_number(fields, 1), shape, *(_number(fields, n) for n in (3, 4, 5)))


def _number(fields: dict[int, list[int | bytes]], field: int) -> int:
    """A field that is left out is 0."""
    return int(fields.get(field, [0])[-1])


def _fields(message: bytes) -> dict[int, list[int | bytes]]:
    """The fields of a protocol buffer by number; numbers as they are, all else as bytes."""
    found: dict[int, list[int | bytes]] = {}
    at = 0
    if len(message) > _LONGEST_MESSAGE:
        raise ValueError("more than can be said of a variable")
    while at < len(message):
        key, at = _varint(message, at)
        value: int | bytes
        match key & 7:
            case 0:
                value, at = _varint(message, at)
            case 2:
                length, at = _varint(message, at)
                value, at = message[at : at + length], at + length
            case 5:
                value, at = message[at : at + 4], at + 4
            case 1:
                value, at = message[at : at + 8], at + 8
            case _:
                raise ValueError("no protocol buffer")
        found.setdefault(key >> 3, []).append(value)
    return found


def _varint(stored: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = shift = 0
    for byte in stored[at : at + _VARINT]:
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("a number without an end")
