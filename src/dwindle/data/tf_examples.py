"""See's ``.bin`` files: records of an 8-byte length and a serialised ``tf.Example``, read without
TensorFlow. Knows just as much of protocol buffers as that takes.

A record is ``Example{1: Features{1: entry{1: key, 2: Feature{1: BytesList{1: value}}}}}``.
"""

import re
import struct
from collections.abc import Iterator
from pathlib import Path

from dwindle.data.example import Split
from dwindle.data.files import split_names

_VARINT = 10
"""Bytes of the longest number."""


def chunks(place: Path, split: Split) -> list[Path]:
    """``train_000.bin``, ... or ``train.bin``, in a folder or anywhere below it."""
    name = re.compile(rf"({'|'.join(split_names(split))})(_\d+)?\.bin")
    found = sorted(file for file in place.rglob("*.bin") if name.fullmatch(file.name))
    numbered = [file for file in found if "_" in file.name]
    # The same articles stand in train.bin and in its chunks.
    return numbered or found


def records(file: Path) -> Iterator[tuple[int, int]]:
    """Start and length of each record of a file."""
    size, start = file.stat().st_size, 0
    with file.open("rb") as content:
        while start < size:
            content.seek(start)
            head = content.read(8)
            length = struct.unpack("<q", head)[0] if len(head) == 8 else -1
            if not 0 <= length <= size - start - 8:
                raise ValueError(f"{file} is broken at byte {start}: get it again")
            yield start + 8, length
            start += 8 + length


def features(file: Path, start: int, length: int) -> dict[str, bytes]:
    """The first value of each feature of one record."""
    with file.open("rb") as content:
        content.seek(start)
        record = content.read(length)
    try:
        return dict(_feature(entry) for part in _fields(record, 1) for entry in _fields(part, 1))
    except (IndexError, ValueError):
        raise ValueError(f"{file} has no tf.Example at byte {start}: get it again") from None


def _feature(entry: bytes) -> tuple[str, bytes]:
    key, feature = next(_fields(entry, 1), b""), next(_fields(entry, 2), b"")
    values = (value for held in _fields(feature, 1) for value in _fields(held, 1))
    return key.decode(), next(values, b"")


def _fields(message: bytes, wanted: int) -> Iterator[bytes]:
    """The values of one field of a message; all fields of these messages have a length and bytes
    (wire type 2)."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        length, at = _varint(message, at)
        if tag & 7 != 2 or at + length > len(message):
            raise ValueError("no message of this kind")
        if tag >> 3 == wanted:
            yield message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    value = shift = 0
    for byte in message[at : at + _VARINT]:
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("a number without an end")
