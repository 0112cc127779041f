"""Examples as a codec's rows. Texts are encoded once and mapped from the user's cache, for all runs
that read the same corpus with the same codec, and for those that go on; images are read when they
are asked for.
"""

import hashlib
import json
import tempfile
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from dwindle.data.example import Example
from dwindle.data.prepared import fingerprint
from dwindle.models.codec import Codec, Row
from dwindle.runfiles import whole
from dwindle.system import cache

_ABOUT = "rows.json"


class Encoded(Dataset[Row]):
    """The rows of a folder of the cache. Examples without a source or a target are not among them.

    A column is a file of all rows' values one after the other, and a file of the N + 1 places
    between them.
    """

    def __init__(self, folder: Path) -> None:
        about = whole.read_json(folder / _ABOUT, f"delete {folder}")
        self.empty: list[str] = about["empty"]
        """The ids of the examples that were left out."""
        self.cut: int = about["cut"]
        """Number of sources that were too long for the model."""
        self.lengths = np.load(folder / "lengths.npy", mmap_mode="r")
        """(N,): characters of each source."""
        self._columns = {
            name: (_mapped(folder / name, kind), np.load(folder / f"{name}.npy", mmap_mode="r"))
            for name, kind in about["columns"].items()
        }

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Row:
        columns = self._columns.items()
        return {
            name: _read(values[places[index] : places[index + 1]])
            for name, (values, places) in columns
        }

    def count(self, name: str, end: int | None = None) -> npt.NDArray[np.int64]:
        """(N,): number of values in each row of a column, without an ``end`` that comes last."""
        values, places = self._columns[name]
        counts: npt.NDArray[np.int64] = np.diff(places)
        return counts if end is None else counts - ((values[places[1:] - 1] == end) & (counts > 0))


def encoded(codec: Codec, examples: Sequence[Example]) -> Encoded:
    """The rows of text examples, each with its target."""
    key = [fingerprint(examples), codec_digest(codec)]
    return Encoded(cache.kept("rows", key, lambda made: _write(made, codec, examples)))


class Looked(Dataset[Row]):
    """Rows that ``row`` makes of examples when they are asked for."""

    empty: Sequence[str] = ()
    cut = 0

    def __init__(self, row: Callable[[Example], Row], examples: Sequence[Example]) -> None:
        self._row, self._examples = row, examples
        self.lengths = [len(example.target) for example in examples]
        """(N,): characters of each target; an image has no length."""

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> Row:
        return self._row(self._examples[index])


class _Column:
    """One column of rows that is being written: numbers, or words as JSON."""

    def __init__(self, file: Path) -> None:
        self.file, self.kind, self.places = file.open("wb"), "int32", array("q", [0])

    def add(self, values: list[Any]) -> None:
        if values and isinstance(values[0], str):
            self.kind = "uint8"
            self.file.write(json.dumps(values).encode())
        else:
            self.file.write(np.asarray(values, np.int32).tobytes())
        self.places.append(self.file.tell() // np.dtype(self.kind).itemsize)

    def close(self, places: Path) -> None:
        self.file.close()
        np.save(places, np.frombuffer(self.places, np.int64))


def _write(folder: Path, codec: Codec, examples: Sequence[Example]) -> None:
    columns: dict[str, _Column] = {}
    empty, cut, lengths = [], 0, array("q")
    for example in examples:
        if not (example.source.strip() and example.target.strip()):
            empty.append(example.id)
            continue
        row = codec.encode(example.input, example.target)
        cut += row.pop("cut")
        lengths.append(len(example.source))
        for name, values in row.items():
            if name not in columns:
                columns[name] = _Column(folder / name)
            columns[name].add(values)
    for name, column in columns.items():
        column.close(folder / f"{name}.npy")
    np.save(
        folder / "lengths.npy",
        np.frombuffer(lengths, np.int64) if lengths else np.zeros(0, np.int64),
    )
    kinds = {name: column.kind for name, column in columns.items()}
    whole.write_json(folder / _ABOUT, {"empty": empty, "cut": cut, "columns": kinds})


def _mapped(file: Path, kind: str) -> Any:
    """A column's values; an empty file cannot be mapped."""
    return np.memmap(file, kind, "r") if file.stat().st_size else np.zeros(0, kind)


def _read(values: Any) -> list[Any]:
    """A row's part of a column: words are JSON, of bytes."""
    if values.dtype != np.uint8:
        numbers: list[int] = values.tolist()
        return numbers
    words: list[str] = json.loads(values.tobytes()) if len(values) else []
    return words


def codec_digest(codec: Codec) -> str:
    """Digest of a codec's files."""
    found = hashlib.blake2b(digest_size=12)
    with tempfile.TemporaryDirectory() as folder:
        codec.save_pretrained(Path(folder))
        for file in sorted(Path(folder).rglob("*")):
            if file.is_file():
                found.update(
                    f"{file.relative_to(folder)} {file.stat().st_size} ".encode()
                    + file.read_bytes()
                )
    return found.hexdigest()
