"""``Listeners``: the heads that tell what a model read, and the thresholds below which little
attention raises an alarm.

The evidence on a part is how much less attention it got than is usual (minus the logarithm of its
peak, a weighted sum over the heads, less what words like it usually have), and with a second
opinion how much it surprises a translator of the other direction. Its score is the log-odds, by
that evidence, that it was left out; an item's score sums up those of its parts. Attention tells
disengagement, not misstatement: a word that was translated by a wrong one may score low or high.

The thresholds are those of ``calibration``. Runs no model.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dwindle.auditing.calibration import check_share, conformal, conformal_without_gaps
from dwindle.auditing.heads import Head
from dwindle.auditing.odds import item_score, log_odds
from dwindle.auditing.source import Part, ReadSource
from dwindle.display import optional, pieces
from dwindle.runfiles import names, whole

FILE = "listeners.json"
"""The name of the file beside a model."""
LEAST = 1e-4
"""Smallest peak; lower ones count as this, because nothing was heard."""
SHORTEST_WORD = 0.25
"""Largest distance in seconds between marks in a sound that are joined."""


@dataclass(frozen=True)
class Span:
    """A stretch of the source that is marked as left out, in characters or seconds."""

    start: float
    end: float
    text: str
    score: float
    """Score of its worst part."""
    unheard: tuple[Head, ...] = ()
    """Heads that paid it so little attention that each, on its own, would mark it."""
    surprise: float | None = None
    """The second opinion: the share of its surprise that is left once the output is known. 1 means
    as surprising as without the output."""


@dataclass(frozen=True, repr=False)
class Finding:
    """Parts of a source that one output left out. A notebook shows it with its marks.

    Example:
        >>> found, = dwindle.omissions(translator, tokenizer, [(source, "mayor bridge")], ears)
        >>> [span.text for span in found.spans]
        ['ferry ship child']
    """

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
    source: str = ""
    """The text that was read; empty for a sound."""
    output: str = ""

    def __repr__(self) -> str:
        spans = ", ".join(
            repr(span.text) if span.text else f"{span.start:.1f}-{span.end:.1f} s"
            for span in self.spans
        )
        return f"Finding({self._verdict}; left out: {spans or 'nothing'})"

    @property
    def _verdict(self) -> str:
        score = "no score" if self.score is None else f"score {self.score:.2f}"
        return f"{'alarm' if self.alarm else 'no alarm'}, {score}"

    def _repr_html_(self) -> str:
        if not self.source:
            return pieces.table(
                ("from", "to", "score"),
                [(s.start, s.end, f"{s.score:.2f}") for s in self.spans],
                repr(self),
            )
        spans = [(int(s.start), int(s.end), f"score {s.score:.1f}") for s in self.spans]
        shown = pieces.marked(self.source, spans, int(self.read))
        return pieces.side_by_side(
            [("source", shown), ("output", pieces.marked(self.output, []))], self._verdict
        )

    def to_pandas(self) -> Any:
        """A row for each part of the source: position, text, score, and whether it is marked."""
        return optional.frame(
            [
                {
                    "start": part.start,
                    "end": part.end,
                    "text": self.source[int(part.start) : int(part.end)],
                    "score": score,
                    "marked": marked,
                }
                for part, score, marked in zip(self.parts, self.scores, self.marked, strict=True)
            ]
        )

    def plot(self, axes: Any = None) -> Any:
        """The score of each part as a bar, with what is marked in another colour; the axes."""
        axes = optional.axes(axes, width=max(6.4, 0.3 * len(self.parts)))
        colours = ["#e08a00" if one else "#8a9097" for one in self.marked]
        axes.bar(range(len(self.parts)), self.scores, color=colours)
        names = [self.source[int(p.start) : int(p.end)] or f"{p.start:.1f} s" for p in self.parts]
        axes.set_xticks(range(len(self.parts)), names, rotation=90, fontsize=8)
        axes.set_ylabel("score")
        axes.set_title(self._verdict, fontsize=10)
        return axes

    @property
    def marked(self) -> list[bool]:
        """(P,): which parts are in a span."""
        return [
            any(span.start <= part.middle < span.end for span in self.spans) for part in self.parts
        ]

    @property
    def cells(self) -> list[float | None]:
        """The score of each character or second of the source; None where it has no parts."""
        cells: list[float | None] = [None] * math.ceil(self.length)
        for part, score in zip(self.parts, self.scores, strict=True):
            for at in range(math.floor(part.start), min(math.ceil(part.end), len(cells))):
                before = cells[at]
                cells[at] = score if before is None else max(before, score)
        return cells


@dataclass(frozen=True, repr=False)
class Listeners:
    """The chosen heads, what is usual for them, and the thresholds.

    Example:
        >>> file = ears.save(folder)
        >>> dwindle.Listeners.load(folder).heads == ears.heads
        True
    """

    heads: tuple[Head, ...]
    usual: dict[str, float]
    """By word, the weighted sum in whole outputs; the empty word stands for all others."""
    threshold: float
    """Score above which an item is alarmed."""
    part_threshold: float
    """Score above which a part is marked."""
    false_alarms: float
    """Share of false alarms that was asked for, among intact items and among their parts."""
    unit: str
    auroc: dict[str, float]
    """AUROC on deletions in held-out sources: of the chosen heads, and of all heads together."""
    tells: bool
    """True if the heads tell anything. If not, nothing else here means much."""
    probe: tuple[int, ...]
    """Tokens of a fixed text, by which the tokenizer is recognised."""
    origin: dict[str, Any]
    """Settings and data from which these listeners were chosen."""
    words_per_second: float = 0.0
    """Words per second below which a sound is not speech. 0 for texts."""
    weights: tuple[float, ...] = (0.0, 1.0)
    """The offset of the log-odds, and the weight of each evidence: attention, and of a second
    opinion the surprise given the output and given nothing."""
    calibration: dict[str, list[float]] = field(default_factory=lambda: {"items": [], "parts": []})
    """The scores of outputs, ``items``, and of their ``parts``; where some of the outputs may leave
    something out, also those of ``deletions``, which are known to. All in rising order."""
    head_weights: tuple[float, ...] = ()
    """The weight of each head in the evidence; empty for their mean. Negative for one that looks at
    a word more if it is missing, since it should come next: the others are read against it."""
    reverse: tuple[int, ...] = ()
    """Tokens of the same text by the tokenizer of the second opinion; empty without one."""
    contrast: bool = False
    """True if the most suspicious words get a closer look."""

    def at(self, false_alarms: float) -> "Listeners":
        """The same heads and evidence with the thresholds for another share of false alarms."""
        check_share(false_alarms)
        scores = self.calibration
        items = conformal_without_gaps(scores["items"], scores.get("deletions", []), false_alarms)
        parts = conformal(scores["parts"], false_alarms)
        if math.isinf(items):
            raise ValueError(
                f"calibrated on {len(scores['items'])} outputs, which are too few for "
                f"{false_alarms:.1%} false alarms: "
                f"ask for {1 / (len(scores['items']) + 1):.1%} or more, or choose from more sources"
            )
        return replace(self, threshold=items, part_threshold=parts, false_alarms=false_alarms)

    def __repr__(self) -> str:
        heads = ", ".join(f"{layer}.{head}" for layer, head in self.heads)
        worth = ", ".join(f"{kind} {value:.2f}" for kind, value in self.auroc.items())
        told = "" if self.tells else ", which tell nothing"
        return (
            f"Listeners(heads {heads}{told}; {self.false_alarms:.0%} false alarms; AUROC: {worth})"
        )

    def _repr_html_(self) -> str:
        rows = [(row["deletions"], row["heads"], f"{row['auroc']:.3f}") for row in self._worth]
        return pieces.table(
            ("deletions", "heads", "AUROC"), rows, repr(self).partition("; AUROC")[0] + ")"
        )

    @property
    def _worth(self) -> list[dict[str, Any]]:
        """AUROC by the kind of deletion, of the chosen heads and of all heads."""
        split = [(kind.partition(", "), value) for kind, value in self.auroc.items()]
        return [
            {"deletions": k, "heads": heads or "chosen", "auroc": v} for (k, _, heads), v in split
        ]

    def to_pandas(self) -> Any:
        """A row for each kind of deletion: its AUROC by the chosen heads and by all heads."""
        return optional.frame(self._worth)

    def plot(self, axes: Any = None) -> Any:
        """The AUROC of the chosen heads beside that of all, for each kind of deletion; the axes."""
        axes = optional.axes(axes)
        names = [f"{row['deletions']}, {row['heads']}" for row in self._worth]
        colours = ["#1f5f8b" if row["heads"] == "chosen" else "#8a9097" for row in self._worth]
        axes.barh(names, [row["auroc"] for row in self._worth], color=colours)
        axes.axvline(0.5, color="#20242a", linestyle=":")
        axes.set_xlim(0, 1)
        axes.set_xlabel("AUROC (0.5 is guessing)")
        return axes

    def scores(self, source: ReadSource, peaks: Tensor, surprise: Tensor | None = None) -> Tensor:
        """(P,): the score of each part, from the peaks of the chosen heads (heads, S) and a second
        opinion (P, 2)."""
        heard = evidence(source, peaks, self._shares, self.usual, surprise)
        return log_odds(heard, self.weights)

    @property
    def _shares(self) -> tuple[float, ...]:
        return self.head_weights or (1 / len(self.heads),) * len(self.heads)

    @property
    def hearing(self) -> tuple[Head, ...]:
        """The heads that show by themselves what was read: those with positive weights."""
        both = zip(self.heads, self._shares, strict=True)
        return tuple(head for head, weight in both if weight > 0)

    def finding(self, source: ReadSource, rows: Any, text: str = "") -> Finding:
        """Find what was left out, from attention rows (heads, T, S) of the chosen heads in their
        order, by any engine.

        ``rows`` is a tensor or an array. An output without rows left out everything.
        """
        given = torch.as_tensor(rows, dtype=torch.float32)
        if (
            given.ndim != 3
            or given.shape[0] != len(self.heads)
            or given.shape[2] < len(source.owner)
        ):
            raise ValueError(
                f"the attention has the shape {tuple(given.shape)}: pass ({len(self.heads)} "
                f"heads, rows, {len(source.owner)} positions)"
            )
        if self.reverse:
            raise ValueError(
                "these listeners need a second opinion, and rows alone have none: choose some "
                "without"
            )
        if self.contrast:
            raise ValueError(
                "these listeners look closer with the model itself: choose some without contrast"
            )
        none = given.new_zeros(given.shape[0], given.shape[2])
        return self.judged(source, given.amax(1) if given.shape[1] else none, text)

    def judged(
        self,
        source: ReadSource,
        peaks: Tensor,
        text: str = "",
        surprise: Tensor | None = None,
        scores: Tensor | None = None,
    ) -> Finding:
        """Find what was left out, from the peaks of the chosen heads (heads, S) and a second
        opinion (P, 2).

        ``scores`` (P,) are those after a closer look, if there was one.
        """
        scores = self.scores(source, peaks, surprise) if scores is None else scores
        score = item_score(scores)
        values = tuple(scores.tolist())
        spans = self._with_unheard(source, peaks, surprise, self._spans(source.parts, values, text))
        alarm = score is not None and score > self.threshold
        return Finding(
            score, alarm, tuple(spans), source.parts, values, source.length, source.read, text
        )

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
            _check(told)
            told["heads"] = tuple(map(tuple, told["heads"]))
            told |= {
                name: tuple(told[name]) for name in ("head_weights", "probe", "weights", "reverse")
            }
            return cls(**told)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{file} has no listeners ({error}): choose them again") from None

    @classmethod
    def beside(cls, model: str | Path) -> "Listeners | None":
        """The listeners beside a model or the model of a run; None if there are none or they tell
        nothing."""
        file = kept_at(model)
        found = cls.load(file) if Path(model).is_dir() and file.is_file() else None
        return found if found and found.tells else None

    def _with_unheard(
        self, source: ReadSource, peaks: Tensor, surprise: Tensor | None, spans: Sequence[Span]
    ) -> Iterator[Span]:
        """Spans with the ``hearing`` heads that did not hear them: were all heads like it, the
        scores of the parts would be too high on average."""
        if not spans:
            return  # as in most outputs
        each = {
            head: self.scores(source, one.expand_as(peaks), surprise)
            for head, one in zip(self.heads, peaks, strict=True)
            if head in self.hearing
        }
        for span in spans:
            inside = torch.tensor([span.start <= part.middle < span.end for part in source.parts])
            heads = tuple(
                head for head, one in each.items() if one[inside].mean() > self.part_threshold
            )
            yield replace(
                span, unheard=heads, surprise=None if surprise is None else _share(surprise[inside])
            )

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
            spans.append(
                Span(start, part.end, text[int(start) : int(part.end)] if text else "", score)
            )
        return spans


def _check(told: Any) -> None:
    """Refuse what no listeners were ever saved as: with a number that is none, nothing would be
    alarmed and nobody would be told."""
    if not isinstance(told, dict):
        raise ValueError("it holds no named settings")
    required = {one.name: _FIELDS[one.name] for one in fields(Listeners)}
    if others := told.keys() ^ required.keys():
        raise ValueError(f"{min(others)!r} is missing or unknown, as in another version's")
    for name, is_right in required.items():
        if not is_right(told[name]):
            raise ValueError(f"{name!r} is damaged")
    evidence = 3 if told["reverse"] else 1
    if len(told["weights"]) != 1 + evidence or len(told["head_weights"]) not in (
        0,
        len(told["heads"]),
    ):
        raise ValueError("its weights are of other evidence")


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool) and abs(value) < _MOST


def _is_threshold(value: Any) -> bool:
    return value == math.inf or _is_number(value)  # nothing is above infinity


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _are(kind: Callable[[Any], bool], values: Any) -> bool:
    return isinstance(values, list) and all(map(kind, values))


def _are_named(kind: Callable[[Any], bool], values: Any) -> bool:
    return isinstance(values, dict) and all(map(kind, values.values()))


def _are_heads(heads: Any) -> bool:
    pairs = _are(lambda head: _are(_is_count, head) and len(head) == 2, heads)
    return pairs and 0 < len(heads) == len(set(map(tuple, heads)))


def _rises(scores: Any) -> bool:
    return _are(_is_number, scores) and scores == sorted(scores)


_MOST = 1e30
"""Beyond all numbers of a file of listeners; float32 still holds it."""
_FIELDS: dict[str, Callable[[Any], bool]] = {
    "heads": _are_heads,
    "head_weights": partial(_are, _is_number),
    "usual": lambda value: _are_named(_is_number, value) and "" in value,
    "weights": partial(_are, _is_number),
    "threshold": _is_threshold,
    "part_threshold": _is_threshold,
    "false_alarms": lambda value: _is_number(value) and 0 < value < 1,
    "unit": lambda value: value in ("characters", "seconds"),
    "auroc": partial(_are_named, lambda value: isinstance(value, float | int)),
    "tells": lambda value: isinstance(value, bool),
    "probe": partial(_are, _is_count),
    "origin": lambda value: isinstance(value, dict),
    "words_per_second": lambda value: _is_number(value) and value >= 0,
    "reverse": partial(_are, _is_count),
    "contrast": lambda value: isinstance(value, bool),
    "calibration": lambda value: _are_named(_rises, value) and {"items", "parts"} <= value.keys(),
}
"""The form of each field of a file of listeners."""


def _share(surprise: Tensor) -> float:
    """The surprise given the output, beside that given nothing, of some parts together (P, 2)."""
    given, nothing = surprise.sum(0).tolist()
    return min(given / nothing, 1.0) if nothing > 0 else 0.0


def kept_at(model: str | Path) -> Path:
    """The file of a model's listeners: beside the model; for a hub name, in this folder."""
    folder = Path(model)
    inside = folder / names.MODEL / FILE
    if inside.is_file() and not (folder / FILE).is_file():
        return inside
    return folder / FILE if folder.is_dir() else Path(FILE)


def evidence(
    source: ReadSource,
    peaks: Tensor,
    head_weights: Sequence[float],
    usual: dict[str, float],
    surprise: Tensor | None = None,
) -> Tensor:
    """(P, F): on each part, from the peaks of heads (heads, S) and, with a second opinion, its
    surprise (P, 2)."""
    heard = torch.tensor(head_weights) @ unheard(source, peaks)
    expected = [usual.get(part.name, usual[""]) for part in source.parts]
    attention = (heard - torch.tensor(expected, dtype=heard.dtype))[:, None]
    return attention if surprise is None else torch.cat([attention, surprise], 1)


def unheard(source: ReadSource, peaks: Tensor) -> Tensor:
    """(heads, P): minus the logarithm of each part's peaks, from those of positions (heads, S)."""
    return -source.of_parts(peaks).clamp(min=LEAST).log()


def _touch(end: float, start: float, text: str) -> bool:
    """True if nothing but spaces stands between two parts; of a sound, less than a word."""
    return text[int(end) : int(start)].strip() == "" if text else start - end < SHORTEST_WORD


def _file(path: str | Path) -> Path:
    return Path(path) / FILE if Path(path).is_dir() else Path(path)
