"""The three nouns of the room. A `Reduction` turns each item into a row of numbers, a `Metric`
turns the sum of rows into a value, a `Score` is that value with its signature.

Whatever comes after the rows (the corpus value, the value of one item, of half the items, of a
thousand resamples) needs only their sums, so no text is read twice. Knows no particular metric.
"""

import multiprocessing
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dwindle import __version__
from dwindle.data.script import has_sentences, has_spaces, is_latin
from dwindle.metrics.kind import Kind, Name
from dwindle.runfiles.outputs import Item, Outputs

Array = npt.NDArray[np.float64]
Count = int | Array
"""Number of items: one, or one for each of several sums."""
Formula = Callable[[Array, Count], Array]
Progress = Callable[[int], None]
Settings = tuple[tuple[str, str], ...]

_CHUNK = 64
BLOCK = 256
"""Number of items, in the order of `by_length`, whose batches do not depend on other items."""


@dataclass(frozen=True)
class Signature:
    """The name of a metric and every setting that could change its value, in order.

    Written ``rouge1|measure:f1|tok:rouge-1.5.5|...|version:0.2.0|seed:1|bs:1000``.
    """

    metric: str
    settings: Settings = ()

    def __str__(self) -> str:
        return "|".join([self.metric, *(f"{key}:{value}" for key, value in self.settings)])

    def __getitem__(self, key: str) -> str:
        return dict(self.settings)[key]

    def also(self, **settings: object) -> "Signature":
        """The same signature with more settings at its end."""
        return Signature(
            self.metric, (*self.settings, *((key, str(value)) for key, value in settings.items()))
        )


def made(**settings: object) -> Settings:
    """The settings of a metric of this version; those that are None are left out."""
    named = {key: str(value) for key, value in settings.items() if value is not None}
    return (*named.items(), ("version", __version__))


@dataclass(frozen=True)
class Score:
    """A number that says how it was made. ``low`` and ``high`` bound its confidence interval, if
    there is one."""

    metric: str
    value: float
    signature: Signature
    low: float | None = None
    high: float | None = None

    @property
    def record(self) -> dict[str, str | float | None]:
        """As JSON shows it."""
        bounds = {"value": self.value, "low": self.low, "high": self.high}
        return {"metric": self.metric, **bounds, "signature": str(self.signature)}


class Reduction(Protocol):
    """Item -> row of K statistics. Equal reductions of several metrics are computed once."""

    @property
    def needs(self) -> frozenset[str]:
        """Parts that items must have, of ``references``, ``source``, ``gold`` and ``coverage`` (see
        `Outputs.has`), and demands on texts (``WRITTEN``): references in ``latin`` letters or with
        ``spaces`` between words, outputs and sources in a script that marks the end of
        ``sentences``."""

    def __hash__(self) -> int: ...


@runtime_checkable
class ItemReduction(Reduction, Protocol):
    """A reduction that sees one item at a time, and so may run on several cores."""

    def row(self, item: Item) -> Sequence[float]: ...


class CorpusReduction(Reduction, Protocol):
    """A reduction that must see all items at once (document frequencies, coverage)."""

    def rows(self, system: Outputs, progress: Progress) -> Array: ...


@runtime_checkable
class Blocks(Protocol):
    """A reduction that has looked at all items, and now needs blocks of ``BLOCK`` items, each
    alone. It is sent to workers, so it opens its model at the first block."""

    @property
    def told(self) -> Any:
        """Everything that decides a row, but for the texts; plain values."""

    def rows(self, items: Sequence[Item], progress: Progress) -> Array:
        """The rows of one block, or of several that follow each other."""


@runtime_checkable
class BlockReduction(Reduction, Protocol):
    """A reduction whose items share batches of a model. Items of other blocks change nothing but
    what `Blocks` are told of all."""

    def blocks(self, system: Outputs) -> Blocks: ...


@dataclass(frozen=True)
class Metric:
    """A metric: its kind, the columns of its reduction, and a formula on their sum over items.

    ``formula(sums, items)``: sums (..., K) over that many items -> values (...).
    """

    kind: Kind
    reduction: ItemReduction | BlockReduction | CorpusReduction
    columns: tuple[int, ...]
    formula: Formula
    settings: Settings
    option: str = ""
    half: str = ""
    """One of ``HALVES`` if it is not of all items."""

    @property
    def name(self) -> str:
        return str(Name(self.kind.name, self.option, self.half))

    @property
    def signature(self) -> Signature:
        half = (("half", self.half),) if self.half else ()
        return Signature(self.name, (*half, *self.settings))


def mean(sums: Array, items: Count) -> Array:
    """Macro average: the mean over items of a percentage. One column."""
    return sums[..., 0] / items


def percent(sums: Array, items: Count) -> Array:
    """Micro average: 100 times the first column's sum over the second's; 0 if that is 0."""
    part, whole = sums[..., 0], sums[..., 1]
    return 100 * np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


Part = ItemReduction | Blocks
"""A reduction as it is applied to some items without knowing of others."""
Spread = Callable[[Outputs, Sequence[Part], Progress], Sequence[Array]]
"""A function that computes the rows (items, K) of every part on other machines."""


class Statistics:
    """The rows of one system for every requested reduction, items in the order of their ids."""

    def __init__(self, system: Outputs, rows: dict[Reduction, Array]) -> None:
        self.system = system
        self._rows = rows

    def of(self, metric: Metric) -> Array:
        """The statistics (items, K) that ``metric`` reads."""
        return self._rows[metric.reduction][:, list(metric.columns)]

    def parted(self, marked: npt.NDArray[np.bool_]) -> "Statistics":
        """With two columns for each: its number if the item is not marked (items,), its number if
        it is, else zero. The first two count the items."""
        sides = np.stack([~marked, marked], axis=1)[:, None]
        parted = {}
        for reduction, rows in self._rows.items():
            counted = np.concatenate([np.ones((len(rows), 1)), rows], axis=1)
            parted[reduction] = (counted[:, :, None] * sides).reshape(len(rows), -1)
        return Statistics(self.system, parted)

    def mean(self, others: "Sequence[Statistics]") -> "Statistics":
        """The mean of these rows and those of ``others``, for the same items."""
        alike = (self, *others)
        return Statistics(
            self.system, {r: np.mean([s._rows[r] for s in alike], axis=0) for r in self._rows}
        )

    def value(self, metric: Metric) -> float:
        """The corpus value."""
        rows = self.of(metric)
        return float(metric.formula(rows.sum(0), len(rows)))

    def values(self, metric: Metric) -> Array:
        """The value of each item alone."""
        return metric.formula(self.of(metric), 1)

    def score(self, metric: Metric) -> Score:
        return Score(metric.name, self.value(metric), metric.signature)


def passes(metrics: Sequence[Metric]) -> int:
    """Number of times that ``reduce`` goes over the items: once for all metrics that look at one
    item at a time, and once for each of the others."""
    reductions = {metric.reduction for metric in metrics}
    alone = [one for one in reductions if not isinstance(one, ItemReduction)]
    return len(alone) + (len(alone) < len(reductions))


def reduce(
    system: Outputs,
    metrics: Sequence[Metric],
    workers: int = 1,
    progress: Progress = lambda done: None,
    spread: "Spread | None" = None,
) -> Statistics:
    """Reduce every item once for each distinct reduction, with equal results for any ``workers``.

    ``progress`` is called with the number of items that were just finished. ``spread`` takes the
    place of this machine for all but the reductions that must see all items at once.
    """
    reductions = list(dict.fromkeys(metric.reduction for metric in metrics))
    for metric in metrics:
        if reason := objection(system, metric):
            raise ValueError(reason)
    single = [r for r in reductions if isinstance(r, ItemReduction)]
    blocked = [r for r in reductions if isinstance(r, BlockReduction)]
    rows: dict[Reduction, Array] = {}
    if spread:
        parts: list[Part] = [*single, *(r.blocks(system) for r in blocked)]
        rows.update(zip([*single, *blocked], spread(system, parts, progress), strict=True))
    else:
        if single:
            whole = np.array(_map(system.items, single, workers, progress), dtype=np.float64)
            widths = [len(r.row(system.items[0])) for r in single]
            rows.update(zip(single, np.split(whole, np.cumsum(widths)[:-1], axis=1), strict=True))
        for one in blocked:
            order = by_length(system.items)
            found = one.blocks(system).rows([system.items[i] for i in order], progress)
            rows[one] = in_place(found, order)
    for reduction in reductions:
        if not isinstance(reduction, ItemReduction | BlockReduction):
            rows[reduction] = reduction.rows(system, progress)
    for metric in metrics:
        _check_finite(system, metric, rows[metric.reduction])
    return Statistics(system, rows)


def by_length(items: Sequence[Item]) -> list[int]:
    """Places of items with the longest texts first, so that blocks have items of similar length,
    of which little is padded; of equal length in the order of ids."""
    lengths = [max(map(len, (item.hypothesis, *item.references))) for item in items]
    return sorted(range(len(items)), key=lambda i: -lengths[i])


def in_place(rows: Array, order: Sequence[int]) -> Array:
    """Rows of items in ``order``, put where the items are."""
    found = np.empty_like(rows)
    found[list(order)] = rows
    return found


def score(system: Outputs, metrics: Sequence[Metric], workers: int = 1) -> list[Score]:
    """The scores of one system, without intervals (`significance.intervals` gives those)."""
    statistics = reduce(system, metrics, workers)
    return [statistics.score(metric) for metric in metrics]


WRITTEN = frozenset({"latin", "spaces", "sentences"})
"""Needs that are about how the texts are written."""


def objection(system: Outputs, metric: Metric) -> str | None:
    """Reason why a metric cannot be measured on these outputs, or None if it can."""
    needs, name = metric.reduction.needs, metric.name
    for item in system.items:
        if "source" in needs and item.source is None:
            return (
                f"{name} needs sources, but {system.where(item)} has none: add them or leave "
                f"{name} out"
            )
        if "references" in needs and not all(map(str.strip, item.references or [""])):
            what = "an empty reference" if item.references else "no reference"
            return (
                f"{name} needs references, but {system.where(item)} has {what}: add it or leave "
                f"{name} out"
            )
    return _objection_to_script(system, metric) if needs & WRITTEN else None


def _objection_to_script(system: Outputs, metric: Metric) -> str | None:
    """Reason why the metric would go wrong with the script of these texts, or None."""
    needs, name = metric.reduction.needs, metric.name
    references = [reference for item in system.items for reference in item.references]
    if "latin" in needs and not is_latin(" ".join(references)):
        return (
            f"{name} sees ASCII letters and digits only, and the references of {system.name} are "
            f"in another script: take {metric.kind.name}, which counts the words of any script"
        )
    if "spaces" in needs and not has_spaces(references):
        return (
            f"{name} needs spaces between words, and the references of {system.name} have none: "
            "take bleu:zh for "
            "Chinese, bleu:char or chrf for any script, or tokenise the texts and take bleu:none"
        )
    texts = [text for item in system.items for text in (item.hypothesis, item.source or "")]
    if "sentences" in needs and not has_sentences(texts):
        return (
            f"{name} needs to know where sentences end, and {system.name} is in a script that "
            f"does not mark it: put each sentence on a line of its own, or leave {name} out"
        )
    return None


def _check_finite(system: Outputs, metric: Metric, rows: Array) -> None:
    bad = np.flatnonzero(~np.isfinite(rows).all(1))
    if len(bad):
        item = system.items[int(bad[0])]
        raise ValueError(f"{metric.name} is not a number for {system.where(item)}: check its input")


_shared: tuple[Sequence[Item], Sequence[ItemReduction]] = ((), ())


def _map(
    items: Sequence[Item], reductions: Sequence[ItemReduction], workers: int, progress: Progress
) -> list[list[float]]:
    """The rows of all items, side by side for all reductions, in the order of items."""
    starts = range(0, len(items), _CHUNK)
    rows: list[list[float]] = []
    if workers <= 1 or len(starts) <= 2 * workers:
        for start in starts:
            rows.extend(single_rows(items[start : start + _CHUNK], reductions))
            progress(min(_CHUNK, len(items) - start))
        return rows
    # With fork the items are inherited, not copied. The children only count: they start no thread
    # and no BLAS.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pool = context.Pool(workers, _share, (items, reductions))
    with pool:
        for part in pool.imap(_chunk, starts):
            rows.extend(part)
            progress(len(part))
    return rows


def _share(items: Sequence[Item], reductions: Sequence[ItemReduction]) -> None:
    """In a worker: keep what all its chunks are cut from."""
    global _shared
    _shared = (items, reductions)


def _chunk(start: int) -> list[list[float]]:
    items, reductions = _shared
    return single_rows(items[start : start + _CHUNK], reductions)


def single_rows(items: Sequence[Item], reductions: Sequence[ItemReduction]) -> list[list[float]]:
    """The rows of items, side by side for all reductions."""
    return [
        [number for reduction in reductions for number in reduction.row(item)] for item in items
    ]
