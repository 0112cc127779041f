"""``Auditor``: finds what outputs left out of their sources; columns go in and columns come out.

It is the callable of bulk work: of ``datasets.map(batched=True)``, of Ray Data's ``map_batches``,
and of ``dwindle omissions``, in one process (`bulk`) or on many machines (`cluster`). An auditor
that was given names is small until it is first called: only then are its models opened, on a GPU if
there is one, and they stay behind when it is pickled. So a process that only plans the work opens
none, and each worker opens its own. Knows no files.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from dwindle.auditing.audit import AHEAD, Pair, omissions
from dwindle.auditing.listeners import Finding, Listeners
from dwindle.auditing.repair import mended
from dwindle.auditing.reverse import Reverse
from dwindle.runfiles import names

if TYPE_CHECKING:
    from transformers import PreTrainedModel


Opened = tuple["PreTrainedModel", Any, Reverse | None]
"""A model, its tokenizer and the second opinion."""


class Auditor:
    """A model with its listeners, for many pairs.

    Example:
        >>> auditor = dwindle.Auditor(translator, ears, tokenizer)
        >>> found = auditor({"source": [source], "hypothesis": [source]})
        >>> [bool(alarm) for alarm in found["alarm"]]
        [False]

    Args:
        model: the folder of a run or of a saved model, a hub name, or a model (then with its
            ``tokenizer``).
        listeners: those of the model, or their file; None for the file beside the model.
        tokenizer: of a model that was passed; for speech its processor.
        reverse: the second opinion, or the name of its model, if the listeners were chosen with
            one.
        batch: pairs in one forward pass.
        brief: without the score of each character, which takes some seven times the space of the
            source.
        repair: also a mended text of each flagged output, where there is one.
    """

    def __init__(
        self,
        model: "str | Path | PreTrainedModel",
        listeners: Listeners | str | Path | None = None,
        tokenizer: Any = None,
        reverse: Reverse | str | Path | None = None,
        batch: int = 16,
        brief: bool = True,
        repair: bool = False,
    ) -> None:
        self.listeners = _listeners(model, listeners)
        if repair and self.listeners.unit != "characters":
            raise ValueError("sounds cannot be repaired: leave repair out")
        if isinstance(model, str | Path) == (tokenizer is not None):
            raise ValueError("pass the name of a model, or a model and its tokenizer")
        self.batch, self.brief, self.repair = batch, brief, repair
        self._model, self._tokenizer, self._reverse = model, tokenizer, reverse
        self._open: Opened | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_open": None}

    @property
    def block(self) -> int:
        """Number of pairs that share batches: in its last digit, a result depends on its
        neighbours."""
        return AHEAD * self.batch

    @property
    def names(self) -> list[str]:
        """The folders or hub names of the model and of the second opinion."""
        second = self._reverse.model if isinstance(self._reverse, Reverse) else self._reverse
        return [_name(one) for one in (self._model, second) if one is not None]

    def __call__(self, columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """The same columns, and those of the findings beside them.

        ``source`` has texts, or sounds as samples at 16 kHz; ``hypothesis`` has the outputs. Added
        are ``score``, ``alarm``, ``spans`` and ``unread`` (None unless the model could not read the
        end of the source), and if they were asked for ``repaired`` (None where nothing was) and
        ``chars`` or ``seconds``: see `record_of`.
        """
        for name in ("source", "hypothesis"):
            if name not in columns:
                raise ValueError(
                    f"there is no column {name!r}: rename yours to source and hypothesis"
                )
        if twice := [name for name in self.columns if name in columns]:
            raise ValueError(
                f"the column {twice[0]!r} is there already: rename it, or leave it out"
            )
        for row, output in enumerate(columns["hypothesis"]):
            if not isinstance(output, str) or columns["source"][row] is None:
                raise ValueError(
                    f"row {row} of these columns has no text: leave such rows out, or write an "
                    "empty text"
                )
        pairs = zip(columns["source"], columns["hypothesis"], strict=True)
        found = list(self.records(("", source, output) for source, output in pairs))
        return {
            **columns,
            **{name: [record.get(name) for record in found] for name in self.columns},
        }

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that are added."""
        unit = "chars" if self.listeners.unit == "characters" else "seconds"
        cells = () if self.brief else (unit,)
        return (
            "score",
            "alarm",
            "spans",
            "unread",
            *(("repaired",) if self.repair else ()),
            *cells,
        )

    def features(self, table: Any) -> Any:
        """The columns of a table of ``datasets`` with those of the findings, for the ``features``
        of its ``map``: that library takes the types of the first batch for those of all, and there
        may be no finding in it."""
        import datasets  # type: ignore[import-untyped]

        added = datasets.Features.from_arrow_schema(self.schema)
        return datasets.Features(table.features | {name: added[name] for name in self.columns})

    @property
    def schema(self) -> Any:
        """The types of a record, for pyarrow."""
        import pyarrow as pa  # type: ignore[import-untyped]

        place = pa.int64() if self.listeners.unit == "characters" else pa.float64()
        ends = [("start", place), ("end", place)]
        said = [("text", pa.string()), ("score", pa.float64()), ("unheard", pa.list_(pa.string()))]
        second = [("surprise", pa.float64())] if self.listeners.reverse else []
        types = {
            "score": pa.float64(),
            "alarm": pa.bool_(),
            "spans": pa.list_(pa.struct([*ends, *said, *second])),
        }
        types |= {"unread": pa.struct(ends), "repaired": pa.string()}
        cells = pa.list_(pa.float64())
        return pa.schema(
            [("id", pa.string()), *((name, types.get(name, cells)) for name in self.columns)]
        )

    def records(self, items: Iterable[tuple[str, Any, str]]) -> Iterator[dict[str, Any]]:
        """The record of each item (id, source, output), in order; batches run ahead of them."""
        model, tokenizer, reverse = self.opened()
        ids: list[str] = []  # of pairs on their way through the model

        def pairs() -> Iterator[Pair]:
            for id, source, output in items:
                ids.append(id)
                yield source, output

        for found in omissions(model, tokenizer, pairs(), self.listeners, self.batch, reverse):
            record = record_of(ids.pop(0), found, self.listeners.unit, self.brief)
            if (
                self.repair
                and (better := mended(model, tokenizer, found, self.listeners, reverse))
                != found.output
            ):
                record["repaired"] = better
            yield record

    def use(self, opened: "Opened") -> None:
        """Use these models, opened already, instead of opening those of its names at the first
        call."""
        self._open = opened

    def opened(self) -> "Opened":
        """The model, its tokenizer and the second opinion, opened at the first call."""
        if self._open is None:
            self._open = opened(self._model, self._tokenizer, self._reverse)
        return self._open


def opened(
    model: "str | Path | PreTrainedModel",
    tokenizer: Any = None,
    reverse: Reverse | str | Path | None = None,
) -> "Opened":
    """A model, its tokenizer and the second opinion. A name is opened, a model is used as given."""
    if isinstance(model, str | Path):
        model, tokenizer = _on_device(model)
    return (
        model,
        tokenizer,
        Reverse(*_on_device(reverse)) if isinstance(reverse, str | Path) else reverse,
    )


def _on_device(name: str | Path) -> tuple["PreTrainedModel", Any]:
    """A model with its tokenizer, on the GPU of this process if it has one."""
    from dwindle.models.opened import opened

    one = opened(name)
    return one.model.to("cuda" if torch.cuda.is_available() else "cpu"), one.reader


def record_of(id: str, found: Finding, unit: str, brief: bool = False) -> dict[str, Any]:
    """A finding as JSON: ``chars`` has the score of each character of the source, ``seconds`` that
    of each second; neither is there if it is to be ``brief``. Heads are named ``layer.head``."""
    spans = [
        {
            "start": round(span.start, 4),
            "end": round(span.end, 4),
            "text": span.text,
            "score": round(span.score, 4),
        }
        | {"unheard": [f"{layer}.{head}" for layer, head in span.unheard]}
        | ({} if span.surprise is None else {"surprise": round(span.surprise, 4)})
        for span in found.spans
    ]
    score = None if found.score is None else round(found.score, 4)
    record: dict[str, Any] = {"id": id, "score": score, "alarm": found.alarm, "spans": spans}
    if not brief:
        cells = [None if cell is None else round(cell, 4) for cell in found.cells]
        record["chars" if unit == "characters" else "seconds"] = cells
    return record | (
        {"unread": {"start": found.read, "end": found.length}} if found.read < found.length else {}
    )


def _name(model: "str | Path | PreTrainedModel") -> str:
    """The folder or hub name of a model; for a run, the folder of its model."""
    where = Path(model if isinstance(model, str | Path) else model.name_or_path)
    inside = where / names.MODEL
    folder = inside if inside.is_dir() else where
    return str(folder.resolve() if folder.is_dir() else where)


def _listeners(model: Any, given: Listeners | str | Path | None) -> Listeners:
    if isinstance(given, Listeners):
        return given
    if given is not None:
        return Listeners.load(given)
    beside = Listeners.beside(model) if isinstance(model, str | Path) else None
    if beside is None:
        raise ValueError(
            "there are no listeners beside the model: choose them with dwindle.listeners, and "
            "pass them"
        )
    return beside
