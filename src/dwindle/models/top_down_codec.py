"""``RegionCodec``: region features and paragraphs to the captioner's tensors, and back.

A paragraph is words separated by spaces (the readers of ``data/`` tokenise). It knows neither image
files nor weights.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from dwindle.models.codec import IGNORED, Batch, Row, padded
from dwindle.models.vocabulary import END, PAD, START, Vocabulary

FILE = "regions.json"
_SENTENCE_ENDS = {".", "!", "?"}


class RegionCodec:
    """For images of up to ``max_regions`` regions with features of one width."""

    def __init__(
        self, vocabulary: Vocabulary, width: int, max_regions: int = 100, target_length: int = 175
    ) -> None:
        self.vocabulary, self.width = vocabulary, width
        self.max_regions, self.target_length = max_regions, target_length

    @classmethod
    def fitted(
        cls,
        pairs: Iterable[tuple[Any, str]],
        size: int | None,
        max_regions: int,
        target_length: int,
    ) -> Self:
        """A codec for these images and paragraphs. Only the shapes of the features are looked at,
        and all of them: a bad image is met before training."""
        texts, width = [], None
        codec = cls(Vocabulary([]), 0, max_regions, target_length)
        for source, target in pairs:
            codec.width = width = width or _shape(source)[1]
            codec.check(source)
            texts.append(target)
        if width is None:
            raise ValueError("there is no image to train on: check the data's path and size")
        codec.vocabulary = Vocabulary.counted(texts, size)
        return codec

    def check(self, source: Any) -> None:
        """Refuse features that the model cannot read."""
        regions, width = _shape(source)
        name = f"{source} has" if hasattr(source, "path") else "an image has"
        if not regions:
            raise ValueError(f"{name} no regions: extract its features again, or leave it out")
        if regions > self.max_regions:
            raise ValueError(
                f"{name} {regions} regions, but the model takes {self.max_regions}: keep the best "
                "of them, or raise the model's max_regions"
            )
        if width != self.width:
            raise ValueError(
                f"{name} features of width {width}, but the model reads {self.width}: extract all "
                "alike"
            )

    def encode(self, source: Any, target: str | None = None) -> Row:
        """Features (R, D), an array or whatever becomes one, and the words of the paragraph."""
        self.check(source)
        row: Row = {"features": torch.tensor(np.asarray(source, dtype=np.float32)), "cut": False}
        if target is not None:
            row["labels"] = [*self.vocabulary.ids(target.split())[: self.target_length - 1], END]
        return row

    def limit(self, source: int, target: int) -> None:
        self.target_length = target

    def collate(self, rows: list[Row]) -> Batch:
        most = max(len(row["features"]) for row in rows)
        features = torch.zeros(len(rows), most, self.width)
        mask = torch.zeros(len(rows), most, dtype=torch.long)
        for i, row in enumerate(rows):
            features[i, : len(row["features"])] = row["features"]
            mask[i, : len(row["features"])] = 1
        batch = {"features": features, "attention_mask": mask}
        if "labels" in rows[0]:
            batch["labels"] = padded([row["labels"] for row in rows], IGNORED)
        return batch

    def decode(self, sequences: Tensor, batch: Batch) -> list[str]:
        return [self._text(ids) for ids in sequences.tolist()]

    def _text(self, ids: list[int]) -> str:
        """Words up to the end, a newline after each sentence."""
        text = ""
        for id in ids:
            if id == END:
                break
            if id not in (START, PAD):
                word = self.vocabulary.words[id]
                text += word + ("\n" if word in _SENTENCE_ENDS else " ")
        return text.strip()

    @property
    def sentence_break(self) -> None:
        return None  # sentences end with their full stop

    def words(self, ids: list[int]) -> list[str]:
        return [str(id) for id in ids]

    def source_tokens(self, source: Any) -> list[str]:
        return [f"region {i}" for i in range(1, _shape(source)[0] + 1)]

    def unknown(self, source: Any) -> list[str]:
        return []  # regions are not words

    def save_pretrained(self, folder: Path) -> None:
        self.vocabulary.save(Path(folder))
        settings = {
            "width": self.width,
            "max_regions": self.max_regions,
            "target_length": self.target_length,
        }
        (Path(folder) / FILE).write_text(json.dumps(settings), encoding="utf-8")

    @classmethod
    def from_pretrained(cls, folder: Path) -> Self:
        file = Path(folder) / FILE
        if not file.is_file():
            raise ValueError(
                f"{folder} has no {FILE}: name the folder of a captioner that this project saved"
            )
        return cls(Vocabulary.load(Path(folder)), **json.loads(file.read_text(encoding="utf-8")))


def _shape(source: Any) -> tuple[int, int]:
    shape = tuple(source.shape)
    if len(shape) != 2:
        raise ValueError(f"region features have the shape {shape}: store them as (regions, width)")
    return shape
