"""The archives of arrays (``.npz``) in the folder of a run: its coverage and its traces.

An archive is written whole or not at all, and a damaged one is refused with one sentence. Nothing
is unpickled, and no memory is taken for what a header claims and the file does not hold.

``coverage.npz``, what each output has drawn from each source position, holds four arrays, and a
fifth where the source is a text:

    ids        (N,)    strings, the ids of the outputs, in any order
    offsets    (N + 1,) integers: item i has the columns offsets[i] to offsets[i + 1]
    raw        (L, C)  raw coverage after the last step, mean of heads, one row a layer
    effective  (L, C)  effective coverage, likewise
    places     (C,)    integers: the character of the source at which the position's token begins;
                       -1 for a token that is not of the text

``traces.npz``, what every step of a few outputs attended to, holds for the k-th item ``k.id``,
``k.text`` (the source), ``k.output`` (T,) and ``k.source`` (S,) strings, ``k.places`` (S,) as
above, and ``k.attention`` and ``k.weights`` (T, S) in half precision, mean of heads and layers.
``count`` says how many. ``dwindle.generation.tracing`` makes traces.
"""

import contextlib
import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dwindle.runfiles import whole

Array = npt.NDArray[np.floating]

DAMAGED = (
    *(OSError, ValueError, KeyError, EOFError, MemoryError, NotImplementedError, RuntimeError),
    # TokenError and SyntaxError: headers are written as Python
    *(struct.error, zipfile.BadZipFile, zlib.error, tokenize.TokenError, SyntaxError),
)
"""Exceptions that reading a damaged archive may raise."""
_KEYS = {"ids", "offsets", "raw", "effective"}
_SLACK = 150_000_000
"""Number of bytes that the arrays of any archive may take, however well they are compressed."""


def write(path: Path, arrays: dict[str, Any], by: Path | None = None) -> None:
    """Write an archive, compressed. ``by``: as in `whole.write`."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    whole.write(path, file.getvalue(), by)


def read(path: str | Path, what: str, remedy: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an archive. An error names ``what`` it should be, and the ``remedy``."""
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


def write_coverage(
    path: Path,
    coverage: Mapping[str, tuple[Array, Array]],
    places: Mapping[str, Sequence[int]] | None = None,
    by: Path | None = None,
) -> None:
    """Write a coverage file from id -> (raw (L, S), effective (L, S)), and id -> places (S,) if
    they are known.

    ``by``: as in `whole.write`.
    """
    pairs = list(coverage.values())
    known: dict[str, Any] = {}
    if places is not None:
        known["places"] = np.concatenate([places[id] for id in coverage]).astype(np.int32)
    offsets = np.cumsum([0, *(raw.shape[1] for raw, _ in pairs)])
    raw, effective = (np.concatenate([pair[k] for pair in pairs], axis=1) for k in (0, 1))
    ids = np.array(list(coverage))
    write(path, {"ids": ids, "offsets": offsets, "raw": raw, "effective": effective, **known}, by)


def read_coverage(path: str | Path) -> dict[str, npt.NDArray[np.float64]]:
    """id -> coverage (2, L, S): raw, then effective."""
    arrays = _coverage(path)
    ids, offsets = arrays["ids"], arrays["offsets"]
    both = np.stack([arrays["raw"], arrays["effective"]]).astype(np.float64)
    return {str(id): both[:, :, offsets[i] : offsets[i + 1]] for i, id in enumerate(ids)}


def read_places(path: str | Path) -> dict[str, npt.NDArray[np.int64]]:
    """id -> places (S,); empty where the file does not say them."""
    arrays = _coverage(path)
    if "places" not in arrays:
        return {}
    ids, offsets, places = (arrays[key] for key in ("ids", "offsets", "places"))
    return {
        str(id): places[offsets[i] : offsets[i + 1]].astype(np.int64) for i, id in enumerate(ids)
    }


def _coverage(path: str | Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a coverage file, checked."""
    arrays = read(path, "a coverage file", "write one with numpy.savez")
    if set(arrays) - {"places"} != _KEYS:
        raise ValueError(f"{path} holds {sorted(arrays)}: a coverage file holds {sorted(_KEYS)}")
    ids, offsets, raw, effective = (arrays[key] for key in ("ids", "offsets", "raw", "effective"))
    _check_coverage(path, ids, offsets, raw, effective)
    places = arrays.get("places")
    if places is not None and (
        places.shape != raw.shape[1:] or not np.issubdtype(places.dtype, np.integer)
    ):
        raise ValueError(f"{path}: places must be {raw.shape[1]} integers, one for each column")
    return arrays


def _check_coverage(
    path: str | Path,
    ids: npt.NDArray[np.str_],
    offsets: npt.NDArray[np.int64],
    raw: Array,
    effective: Array,
) -> None:
    if raw.ndim != 2 or raw.shape != effective.shape:
        raise ValueError(
            f"{path}: raw {raw.shape} and effective {effective.shape} must have one shape "
            "(layers, columns)"
        )
    if not (np.issubdtype(raw.dtype, np.floating) and np.issubdtype(effective.dtype, np.floating)):
        raise ValueError(f"{path}: coverage must be floating-point numbers")
    if ids.ndim != 1 or ids.dtype.kind != "U" or len(set(ids.tolist())) != len(ids):
        raise ValueError(f"{path}: ids must be a row of different strings")
    if not np.issubdtype(offsets.dtype, np.integer) or offsets.shape != (len(ids) + 1,):
        raise ValueError(f"{path}: offsets must be {len(ids) + 1} integers, one more than ids")
    if (
        offsets[0] != 0
        or offsets[-1] != raw.shape[1]
        or (np.diff(offsets) < 1).any()
        or not raw.shape[0]
    ):
        raise ValueError(
            f"{path}: offsets must rise from 0 to {raw.shape[1]}, with a column or more for each "
            "item"
        )


@dataclass(frozen=True)
class Trace:
    """One output, step by step. T steps, S source positions."""

    id: str
    text: str
    """The source."""
    source: list[str]
    """(S,): its tokens."""
    places: list[int]
    """(S,): the character of the text at which each begins; -1 for one that is not of the text."""
    output: list[str]
    """(T,): what each step wrote; joined they are the output. Special tokens write nothing."""
    attention: npt.NDArray[np.float32]
    """(T, S): plain attention, mean of heads and layers."""
    weights: npt.NDArray[np.float32]
    """(T, S): the weights that were used."""


def write_traces(path: Path, made: Iterable[Trace]) -> None:
    """Write a file of traces, whole or not at all."""
    arrays: dict[str, Any] = {}
    count = 0
    for count, one in enumerate(made, 1):
        k = count - 1
        arrays |= {f"{k}.id": np.array(one.id), f"{k}.text": np.array(one.text)}
        arrays |= {f"{k}.source": np.array(one.source), f"{k}.output": np.array(one.output)}
        arrays |= {f"{k}.places": np.array(one.places, dtype=np.int32)}
        arrays |= {
            f"{k}.attention": one.attention.astype(np.float16),
            f"{k}.weights": one.weights.astype(np.float16),
        }
    write(path, {"count": np.array(count), **arrays})


def read_traces(path: str | Path) -> list[Trace]:
    """The traces of a file."""
    remedy = "generate again"
    file = read(path, "a file of traces", remedy)
    try:
        return [_trace(file, k) for k in range(int(file["count"]))]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a file of traces ({error}): {remedy}") from None


def _trace(file: dict[str, npt.NDArray[Any]], k: int) -> Trace:
    attention, weights = (
        file[f"{k}.{name}"].astype(np.float32) for name in ("attention", "weights")
    )
    source, at, output = (file[f"{k}.{name}"].tolist() for name in ("source", "places", "output"))
    if (
        attention.shape != (len(output), len(source))
        or attention.shape != weights.shape
        or len(at) != len(source)
    ):
        raise ValueError(
            f"item {k} has {len(output)} steps, {len(source)} positions, rows {attention.shape}"
        )
    return Trace(
        str(file[f"{k}.id"]), str(file[f"{k}.text"]), source, at, output, attention, weights
    )
