"""Decoded batches on disk, from which a killed decoding resumes. Knows neither models nor text.

A part is one batch: one file, written whole or not at all, under the name of its first item. Which
items are done is read from the parts alone: batches and shards of any size may have written them,
and an item that two processes decoded counts once.
"""

import io
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dwindle.runfiles import whole
from dwindle.runfiles.arrays import DAMAGED, Array, opened


@dataclass(frozen=True)
class Decoded:
    """One item, decoded."""

    index: int
    """Its place in the corpus."""
    hypothesis: str
    truncated: bool
    """True if its source was cut to the model's length."""
    raw: Array
    """(L, S): raw coverage in float32. An item without a source has none of either: (0, 0)."""
    effective: Array
    """(L, S)."""


class Parts:
    """The parts of one decoding, in a folder named by its fingerprint: no other one mixes in."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder / f"parts-{fingerprint}"

    def add(self, items: list[Decoded]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        told = [
            {"index": i.index, "hypothesis": i.hypothesis, "truncated": i.truncated} for i in items
        ]
        arrays = {
            f"{kind}{n}": getattr(i, kind)
            for n, i in enumerate(items)
            for kind in ("raw", "effective")
        }
        file = io.BytesIO()
        np.savez(file, items=np.frombuffer(json.dumps(told).encode(), dtype=np.uint8), **arrays)
        whole.write(self.folder / f"{items[0].index:08d}.npz", file.getvalue())

    def indices(self) -> set[int]:
        """The items that are done."""
        return {told["index"] for path in self._paths() for told in _told(path)}

    def read(self) -> dict[int, Decoded]:
        """All items that are done, by index."""
        return {item.index: item for path in self._paths() for item in _items(path)}

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.npz"))


def _items(path: Path) -> Iterator[Decoded]:
    told = _told(path)
    with opened(path) as file:
        for n, one in enumerate(told):
            yield Decoded(**one, raw=file[f"raw{n}"], effective=file[f"effective{n}"])


def _told(path: Path) -> list[dict[str, Any]]:
    try:
        with opened(path) as file:
            told: list[dict[str, Any]] = json.loads(file["items"].tobytes())
    except FileNotFoundError:
        raise  # another shard has finished and cleared up
    except DAMAGED as error:
        raise ValueError(
            f"{path} is damaged ({error}): delete it, and its items are decoded again"
        ) from None
    return told
