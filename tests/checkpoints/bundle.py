"""Writes TensorFlow checkpoints (V2) byte by byte, as its ``tensor_bundle`` and ``table`` formats
are defined."""

import struct

import torch

TYPES = {torch.float32: 1, torch.float64: 2, torch.int64: 9}
BLOCK, RESTART = 4, 2
"""Keys in a block, and how often one is written whole."""


def write(prefix, variables):
    """``prefix``.index and ``prefix``.data-00000-of-00001."""
    data, entries = b"", {b"": field(1, 1) + message(3, field(1, 1))}  # one shard, version 1
    for name, value in sorted(variables.items()):
        raw = value.contiguous().numpy().tobytes()
        shape = b"".join(message(2, field(1, n)) for n in value.shape)
        where = field(4, len(data)) + field(5, len(raw)) + varint(6 << 3 | 5) + struct.pack("<I", 0)
        entries[name.encode()] = field(1, TYPES[value.dtype]) + message(2, shape) + where
        data += raw
    prefix.with_name(prefix.name + ".data-00000-of-00001").write_bytes(data)
    prefix.with_name(prefix.name + ".index").write_bytes(table(sorted(entries.items())))


def table(entries):
    stored, index = b"", []
    for at in range(0, len(entries), BLOCK):
        part = entries[at : at + BLOCK]
        whole = block(part)
        index.append((part[-1][0] + b"~", varint(len(stored)) + varint(len(whole))))
        stored += whole + b"\0" + struct.pack("<I", 0)
    handles = b""
    for whole in (block([]), block(index)):
        handles += varint(len(stored)) + varint(len(whole))
        stored += whole + b"\0" + struct.pack("<I", 0)
    return stored + handles.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def block(entries):
    out, restarts, last = b"", [0], b""
    for n, (key, value) in enumerate(entries):
        shared = 0
        if n and n % RESTART == 0:
            restarts.append(len(out))
        elif n:
            shared = next(
                (i for i, (a, b) in enumerate(zip(key, last, strict=False)) if a != b),
                min(len(key), len(last)),
            )
        out += (
            varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        )
        last = key
    return out + b"".join(struct.pack("<I", r) for r in restarts) + struct.pack("<I", len(restarts))


def varint(n):
    out = b""
    while n >= 128:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    return varint(number << 3) + varint(value)


def message(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value
