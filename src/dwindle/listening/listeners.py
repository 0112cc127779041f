"""``Listeners``: the heads of a model that tell what was read, and how little attention is an alarm.

A part's score is how much less attention it got than is usual: minus the logarithm of its peak, mean of the heads, less
what words like it usually have. An item's score is the mean of the quarter of its parts that score highest. Both are
higher the more likely something was left out. Attention tells disengagement, not misstatement: a word that was
translated by a wrong one may score low or high.

The thresholds are conformal: of outputs like those they were calibrated on, at most the asked share is alarmed, on
average over calibrations. Runs no model.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dwindle.folder import whole
from dwindle.listening.heads import Head
from dwindle.listening.source import Part, ReadSource

FILE = "listeners.json"
"""The name of the file beside a model."""
LEAST = 1e-4
"""Peaks below it count as it: nothing was heard."""
SHORTEST_WORD = 0.25
"""Seconds: marks in a sound that are nearer than this are one."""
WORST = 0.25
"""The share of an item's parts that its score is the mean of."""


@dataclass(frozen=True)
class Span:
    """A stretch of the source that is marked as left out, in characters or seconds."""

    start: float
    end: float
    text: str
    score: float
    """Of its worst part."""


@dataclass(frozen=True)
class Finding:
    """What one output left out of its source."""

    score: float | None
    """None for a source in which there is nothing to leave out."""
    alarm: bool
    spans: tuple[Span, ...]
    parts: tuple[Part, ...]
    scores: tuple[float, ...]
    """(P,)"""
    length: float
    read: float
    """Less than ``length`` if the source was cut: the rest is unread, not left out."""

    @property
    def cells(self) -> list[float | None]:
        """The score of each character or second of the source; None where nothing can be left out."""
        cells: list[float | None] = [None] * math.ceil(self.length)
        for part, score in zip(self.parts, self.scores, strict=True):
            for at in range(math.floor(part.start), min(math.ceil(part.end), len(cells))):
                before = cells[at]
                cells[at] = score if before is None else max(before, score)
        return cells


@dataclass(frozen=True)
class Listeners:
    """The chosen heads, what is usual for them, and the thresholds."""

    heads: tuple[Head, ...]
    usual: dict[str, float]
    """By word, minus the logarithm of its peak in outputs that leave nothing out; the empty word is any other."""
    threshold: float
    """An item above it is alarmed."""
    part_threshold: float
    """A part above it is marked."""
    false_alarms: float
    """The share that was asked for, of intact items and of their parts alike."""
    unit: str
    auroc: dict[str, float]
    """On deletions in sources that had no part in the choice: of the chosen heads, and of all heads together."""
    tells: bool
    """Whether the heads tell anything. If not, nothing else here means much."""
    probe: tuple[int, ...]
    """How a fixed text is cut."""
    origin: dict[str, Any]
    """How all this came about."""
    words_per_second: float = 0.0
    """Sound of which the model writes fewer is no speech. 0 for texts."""

    def scores(self, source: ReadSource, peaks: Tensor) -> Tensor:
        """(P,): the score of each part, from the peaks of the chosen heads (heads, S)."""
        return part_scores(source, peaks, self.usual)

    def finding(self, source: ReadSource, rows: Any, text: str = "") -> Finding:
        """What was left out, from attention rows (heads, T, S) of the chosen heads in their order, by any engine.

        ``rows`` is a tensor or an array. An output without rows left out everything.
        """
        given = torch.as_tensor(rows, dtype=torch.float32)
        if given.ndim != 3 or given.shape[0] != len(self.heads) or given.shape[2] < len(source.owner):
            raise ValueError(
                f"the attention has the shape {tuple(given.shape)}: pass ({len(self.heads)} heads, rows, "
                f"{len(source.owner)} positions)"
            )
        none = given.new_zeros(given.shape[0], given.shape[2])
        return self.judged(source, given.amax(1) if given.shape[1] else none, text)

    def judged(self, source: ReadSource, peaks: Tensor, text: str = "") -> Finding:
        """What was left out, from the peaks of the chosen heads (heads, S)."""
        scores = self.scores(source, peaks)
        score = item_score(scores)
        values = tuple(scores.tolist())
        spans = tuple(self._spans(source.parts, values, text))
        alarm = score is not None and score > self.threshold
        return Finding(score, alarm, spans, source.parts, values, source.length, source.read)

    def save(self, path: str | Path) -> Path:
        """Write them beside a model (``path`` is its folder) or to a file; whole or not at all."""
        file = _file(path)
        whole.write_text(file, json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n")
        return file

    @classmethod
    def load(cls, path: str | Path) -> "Listeners":
        """Read them from a file, or from the folder of a model."""
        file = _file(path)
        try:
            told = json.loads(file.read_text(encoding="utf-8"))
            told["heads"] = tuple((int(layer), int(head)) for layer, head in told["heads"])
            told["probe"] = tuple(told["probe"])
            return cls(**told)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{file} has no listeners ({error}): choose them again") from None

    def _spans(self, parts: Sequence[Part], scores: Sequence[float], text: str) -> list[Span]:
        """Marked parts, those next to each other as one."""
        spans: list[Span] = []
        for part, score in zip(parts, scores, strict=True):
            if score <= self.part_threshold:
                continue
            start = part.start
            if spans and _touch(spans[-1].end, start, text):
                before = spans.pop()
                start, score = before.start, max(before.score, score)
            spans.append(Span(start, part.end, text[int(start) : int(part.end)] if text else "", score))
        return spans


def part_scores(source: ReadSource, peaks: Tensor, usual: dict[str, float]) -> Tensor:
    """(P,): minus the logarithm of the peak, mean of heads, less what is usual. ``peaks`` is (heads, S)."""
    heard = -source.of_parts(peaks).clamp(min=LEAST).log().mean(0)
    expected = [usual.get(part.name, usual[""]) for part in source.parts]
    return heard - torch.tensor(expected, dtype=heard.dtype)


def item_score(scores: Tensor) -> float | None:
    """The mean of the parts that score highest; None without parts."""
    if not len(scores):
        return None
    return float(scores.topk(math.ceil(len(scores) * WORST)).values.mean())


def conformal(scores: Sequence[float], share: float) -> float:
    """The threshold above which one more score like these is with a chance of at most ``share``."""
    rank = math.ceil((len(scores) + 1) * (1 - share) - 1e-9)
    return sorted(scores)[rank - 1] if rank <= len(scores) else math.inf


def _touch(end: float, start: float, text: str) -> bool:
    """Whether nothing but spaces stands between two parts; of a sound, less than a word."""
    return text[int(end) : int(start)].strip() == "" if text else start - end < SHORTEST_WORD


def _file(path: str | Path) -> Path:
    return Path(path) / FILE if Path(path).is_dir() else Path(path)
