"""Region features on disk, as handles: an image's features are read when they are used, and only
its shape before.

A handle has a ``shape`` (regions, width) and becomes an array where one is asked for
(``numpy.asarray``). Formats: rows of a ``.npy`` file (memory-mapped), an ``.npz`` file, and the TSV
of the bottom-up-attention release (base64 of float32, one image a line). Nothing is unpickled.
Knows neither texts nor models.
"""

import base64
import binascii
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dwindle.runfiles.arrays import DAMAGED, opened

Array = npt.NDArray[np.float32]
_FEATURES = ("feat", "features", "x", "arr_0")
_BOXES = ("boxes", "bbox")
_ROW, _SLACK = 400, 150_000_000
"""Bytes in memory of one line of a table, and bytes that the lines of any table may take."""


@dataclass(frozen=True)
class Regions(ABC):
    """The place of one image's features."""

    path: Path

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """(regions, width), without reading the features."""

    @abstractmethod
    def read(self) -> npt.NDArray[Any]:
        """The features."""

    @property
    def boxes(self) -> Array | None:
        """(regions, 4): left, top, right, bottom in pixels, where the file has them."""
        return None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        found = np.asarray(self.read(), dtype=dtype or np.float32)
        return found.copy() if copy else found

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class Npy(Regions):
    """Rows ``first`` to ``last`` of a ``.npy`` file: by default all of them."""

    first: int = 0
    last: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.read().shape

    def read(self) -> npt.NDArray[Any]:
        return _mapped(self.path)[self.first : self.last]


@lru_cache(8)
def _mapped(path: Path) -> npt.NDArray[Any]:
    # A file of many images is opened once; files of one image do not pile up.
    with _said(path):
        mapped: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(mapped, np.ndarray):
            raise ValueError("it is an archive: call it .npz")
        return mapped


@dataclass(frozen=True)
class Npz(Regions):
    """An ``.npz`` file with the array ``feat`` (or ``features``), and ``boxes`` (or ``bbox``) if
    they are known."""

    @property
    def shape(self) -> tuple[int, ...]:
        with _said(self.path), zipfile.ZipFile(self.path) as archive:
            name = self._name([Path(file).stem for file in archive.namelist()])
            with archive.open(f"{name}.npy") as file:
                major, _ = np.lib.format.read_magic(file)
                header = getattr(np.lib.format, f"read_array_header_{major}_0")
                return tuple(header(file)[0])

    def read(self) -> npt.NDArray[Any]:
        with _said(self.path), opened(self.path) as file:
            found: npt.NDArray[Any] = file[self._name(file.files)]
            return found

    @property
    def boxes(self) -> Array | None:
        with _said(self.path), opened(self.path) as file:
            name = next((name for name in _BOXES if name in file.files), None)
            return None if name is None else file[name].astype(np.float32)

    def _name(self, names: list[str]) -> str:
        known = [name for name in _FEATURES if name in names] or (names if len(names) == 1 else [])
        if not known:
            raise ValueError(
                f"it holds {', '.join(names) or 'nothing'}: name the array of features "
                f"{_FEATURES[0]!r}"
            )
        return known[0]


@dataclass(frozen=True)
class TsvRow(Regions):
    """The line at byte ``offset``: image_id, image_w, image_h, num_boxes, boxes, features,
    separated by tabs."""

    offset: int

    @property
    def shape(self) -> tuple[int, ...]:
        count, _, features = self._fields()
        # base64: four characters for three bytes
        size = len(features) // 4 * 3 - features.count(b"=", -2)
        if count and size % (4 * count):
            raise ValueError(
                f"{self} has {size} bytes for {count} regions of float32: extract its features "
                "again"
            )
        return (count, size // (4 * count)) if count else (0, 0)

    def read(self) -> npt.NDArray[Any]:
        count, _, features = self._fields()
        return self._numbers(features, count)

    @property
    def boxes(self) -> Array | None:
        count, boxes, _ = self._fields()
        return self._numbers(boxes, count)

    def _fields(self) -> tuple[int, bytes, bytes]:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            fields = file.readline().rstrip(b"\r\n").split(b"\t")
        if len(fields) != 6 or not fields[3].isdigit():
            raise ValueError(
                f"{self} is not a line of bottom-up features: it needs six fields separated by tabs"
            )
        return int(fields[3]), fields[4], fields[5]

    def _numbers(self, text: bytes, rows: int) -> Array:
        try:
            return np.frombuffer(base64.b64decode(text, validate=True), np.float32).reshape(
                rows, -1
            )
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"{self} is broken ({error}): extract its features again") from None

    def __str__(self) -> str:
        return f"{self.path}, byte {self.offset}"


@cache
def tsv_index(path: Path) -> dict[str, TsvRow]:
    """Image id -> its line. The file is read once, line by line."""
    rows: dict[str, TsvRow] = {}
    offset, most = 0, (2 * path.stat().st_size + _SLACK) // _ROW
    with path.open("rb") as file:
        for line in file:
            id = line.split(b"\t", 1)[0].decode("utf-8", "replace").strip()
            if id:
                rows[id] = TsvRow(path, offset)
            if len(rows) > most:
                raise ValueError(
                    f"{path} has lines that are too short for features: extract them again"
                )
            offset += len(line)
    return rows


class FeatureStore:
    """The features of many images: a folder of ``ID.npz`` / ``ID.npy``, or one TSV or more."""

    def __init__(self, place: Path) -> None:
        if not place.exists():
            raise ValueError(
                f"there are no features at {place}: give a folder of .npz or .npy files, or a "
                ".tsv file"
            )
        self._place = place
        self._tables = [place] if place.is_file() else sorted(place.glob("*.tsv"))

    def __getitem__(self, id: str) -> Regions:
        """The features of an image, or one sentence. The shape is looked at, so that a broken file
        is met now."""
        found = self._find(id)
        if found is None:
            raise ValueError(
                f"image {id} has no features in {self._place}: extract them, or leave the image out"
            )
        shape = found.shape
        if len(shape) != 2:
            raise ValueError(
                f"{found} holds an array of shape {shape}: store features as (regions, width)"
            )
        if not shape[0]:
            raise ValueError(
                f"{found} has no regions: extract its features again, or leave the image out"
            )
        return found

    def _find(self, id: str) -> Regions | None:
        for table in self._tables:
            if id in tsv_index(table):
                return tsv_index(table)[id]
        for ending, kind in ((".npz", Npz), (".npy", Npy)):
            file = self._place / f"{id}{ending}"
            if not self._place.is_file() and file.is_file():
                return kind(file)
        return None


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """Reports an error in a file as one sentence with its name."""
    try:
        yield
    except FileNotFoundError:
        raise ValueError(f"{path} is not there: extract the features of this image") from None
    except (*DAMAGED, AttributeError, TypeError, OverflowError) as error:
        raise ValueError(f"{path} is not a file of region features ({error})") from None
