"""Any file with one JSON object per line: ``train.jsonl``, ``dev.jsonl``, ``test.jsonl`` in a
folder, plain or ``.gz``.

Settings: ``source`` and ``target`` the columns (default ``source``; ``target``, ``reference`` or
``references``). A list of strings is a text's sentences; in ``references`` each entry is a
reference of its own. Without an ``id`` the line number is the id.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dwindle.data.example import Example, Lazy, Split
from dwindle.data.files import Lines, folder, kept, split_file
from dwindle.data.finish import Finish, finish
from dwindle.data.settings import DataSettings
from dwindle.runfiles import whole

ENDINGS = ("jsonl", "json")
_ADVICE = "give the folder of train.jsonl, dev.jsonl and test.jsonl"
_TARGETS = ("target", "reference", "references")


def read(settings: DataSettings, split: Split) -> Sequence[Example]:
    place = folder(settings, _ADVICE)
    file = split_file(place, split, ENDINGS)
    if file is None:
        raise ValueError(
            f"{place} has no {split} file (such as {split}.jsonl or {split}.jsonl.gz): {_ADVICE}"
        )
    source, target = settings.source or "source", settings.target
    return examples(settings, split, file, source, target, finish(settings, source, target or "en"))


def examples(
    settings: DataSettings,
    split: Split,
    file: Path,
    source: str,
    target: str | None,
    finished: Finish,
) -> Sequence[Example]:
    """The examples of one file. Every line is parsed once now, so that all errors come before
    training, and again when it is asked for, so that no text is held."""
    lines = Lines(file)
    records = Records(lines, source, target or _target(lines), finished)
    wanted = settings.size.of(split)
    count = len(lines) if wanted is None else min(wanted, len(lines))
    if not count:
        raise ValueError(f"{file} is empty: write one JSON object per line")
    empty, ids = [], dict[str, int]()
    for place in range(count):
        example = records.raw(place)
        if ids.setdefault(example.id, place) != place:
            first = ids[example.id] + 1
            raise ValueError(
                f"{file}, lines {first} and {place + 1} have the same id {example.id!r}: ids must "
                "differ"
            )
        if not example.source.strip() or not all(map(str.strip, example.references or ("",))):
            empty.append(place)
    return Lazy(records.example, kept(count, empty, split, records.where))


def _target(lines: Lines) -> str:
    first = _record(lines[0], f"{lines.path}, line 1") if len(lines) else {}
    return next((name for name in _TARGETS if name in first), _TARGETS[0])


@dataclass(frozen=True)
class Records:
    """Lines of JSON as examples."""

    lines: Lines
    source: str
    target: str
    finished: Finish

    def where(self, place: int) -> str:
        return f"{self.lines.path}, line {place + 1}"

    def example(self, place: int) -> Example:
        return self.finished(self.raw(place))

    def raw(self, place: int) -> Example:
        """The example as it stands in the file."""
        where = self.where(place)
        record = _record(self.lines[place], where)
        for column in (self.source, self.target):
            if column not in record:
                columns = ", ".join(map(repr, record))
                raise ValueError(
                    f"{where} has no {column!r} but {columns}: name its columns with source and "
                    "target"
                )
        id = record.get("id", place + 1)
        if isinstance(id, bool) or not isinstance(id, str | int) or id == "":
            raise ValueError(
                f"{where} has the id {id!r}: an id is a non-empty string or a whole number"
            )
        whole.check_characters(str(id), f"{where}: the id")
        target = record[self.target]
        several = target if self.target == "references" and isinstance(target, list) else [target]
        references = tuple(text(reference, self.target, where) for reference in several)
        return Example(str(id), text(record[self.source], self.source, where), references)


def text(value: Any, what: str, where: str) -> str:
    """A string, or a list of sentences as one text."""
    sentences = value if isinstance(value, list) else [value]
    if not all(isinstance(sentence, str) for sentence in sentences):
        raise ValueError(
            f"{where}: {what!r} is neither a string nor a list of sentences: write it in quotes"
        )
    joined = "\n".join(sentences)
    whole.check_characters(joined, f"{where}: {what!r}")
    return joined


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON ({error}): write one JSON object per line") from None
    if not isinstance(record, dict):
        raise ValueError(f"{where} is JSON but not an object: write one JSON object per line")
    return record
