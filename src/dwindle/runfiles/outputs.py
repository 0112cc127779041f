"""Outputs of a system: the items of an ``outputs.jsonl``, of a table (CSV, TSV, Parquet, a
``datasets`` folder) or of line-aligned text files, read strictly. Text files may be ``.gz``.

An item has an id, a hypothesis, and what it is measured against: references, a source, or both. A
newline inside a text separates sentences. Nothing is repaired or skipped: a bad line is named by
file and number. Knows nothing of metrics.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

from dwindle.runfiles import names, tables, text_lines, whole


@dataclass(frozen=True)
class Item:
    """One output. ``line`` is where it stands in its file; ``extra`` holds the keys this project
    does not use."""

    id: str
    hypothesis: str
    references: tuple[str, ...] = ()
    source: str | None = None
    line: int = 0
    extra: dict[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Outputs:
    """The items of one system, in the order of their ids: the order of lines changes nothing."""

    name: str
    items: tuple[Item, ...]
    folder: Path | None = None
    files: tuple[tuple[Path, int], ...] = ()
    """The files that it was read from, each with its number of items; lines are counted on from one
    to the next."""

    def __len__(self) -> int:
        return len(self.items)

    def where(self, item: Item) -> str:
        if not item.line:
            return f"{self.name}, item {item.id!r}"
        line = item.line
        for path, count in self.files[:-1]:
            if line <= count:
                return f"{path}, line {line}"
            line -= count
        return f"{self.files[-1][0] if self.files else self.name}, line {line}"

    @property
    def has(self) -> frozenset[str]:
        """The keys among ``references``, ``source`` and ``gold`` that every item has, and
        ``coverage`` if that file lies beside."""
        found = {
            "references": all(
                item.references and all(map(str.strip, item.references)) for item in self.items
            ),
            "source": all(item.source is not None for item in self.items),
            "gold": all(item.extra.get("gold") is not None for item in self.items),
            "coverage": self.folder is not None and (self.folder / names.COVERAGE).is_file(),
        }
        return frozenset(name for name, is_there in found.items() if is_there)

    @property
    def empty(self) -> tuple[Item, ...]:
        """The items whose hypothesis is blank. They score 0 and are reported, never dropped."""
        return tuple(item for item in self.items if not item.hypothesis.strip())


def outputs(
    name: str,
    items: Iterable[Item],
    folder: Path | None = None,
    files: tuple[tuple[Path, int], ...] = (),
) -> Outputs:
    """Items of one system, sorted by id (shorter first: 9 comes before 10); ids must differ."""
    ordered = sorted(items, key=lambda item: (len(item.id), item.id))
    found = Outputs(name, tuple(ordered), folder, files)
    for one, two in pairwise(ordered):
        if one.id == two.id:
            where = (
                f"{found.where(one)} and {found.where(two)}"
                if len(files) > 1
                else f"{name}, lines {one.line} and {two.line}"
            )
            raise ValueError(f"{where} have the same id {one.id!r}: ids must differ")
    if not ordered:
        raise ValueError(f"{name} has no items: write one per line")
    return found


def read(path: str | Path) -> Outputs:
    """Read an ``outputs.jsonl``, or a table with the same names as columns.

    A table is a ``.csv``, ``.tsv`` or ``.parquet`` file, or a folder that ``datasets`` has saved.
    Without a column ``id`` its items are numbered from 1.
    """
    path = Path(path)
    return read_several(str(path), [path])


def read_several(name: str, paths: Sequence[Path]) -> Outputs:
    """Read the outputs of one system that lie in several files."""
    items: list[Item] = []
    files = []
    for path in paths:
        before = len(items)
        read_here = each(path)
        items += (
            (replace(item, line=item.line + before) for item in read_here) if before else read_here
        )
        files.append((path, len(items) - before))
    return outputs(name, items, paths[0].parent, tuple(files))


def each(path: Path, first: int = 0, at: int = 0) -> Iterator[Item]:
    """The items of an ``outputs.jsonl`` or a table, one at a time, in its order.

    ``first``: how many to leave out; the next one begins at the byte ``at``, if these are lines.
    """
    return (_item({"id": n, **record}, where, n) for record, where, n in _records(path, first, at))


def sources(path: Path, first: int = 0, at: int = 0) -> Iterator[tuple[Item, dict[str, Any]]]:
    """The items of a file like ``each`` reads, that may lack hypotheses and must have sources; each
    with its record as it stands in the file."""
    for record, where, n in _records(path, first, at):
        item = _item({"id": n, **record, "hypothesis": ""}, where, n)
        if item.source is None:
            raise ValueError(f'{where} has no "source": give the texts to read that name')
        yield item, record


def _records(path: Path, first: int, at: int) -> Iterator[tuple[dict[str, Any], str, int]]:
    """Records with where they stand and their number, from 1. A table need not number its rows."""
    if tables.is_table(path):
        for n, row in enumerate(tables.rows(path, first), first + 1):
            yield row, f"{path}, row {n}", n
        return
    for n, line in enumerate(text_lines.texts(path, first, at), first + 1):
        where = f"{path}, line {n}"
        record = _record(line, where)
        if "id" not in record:
            raise ValueError(f'{where} has no id: give every item its own "id"')
        yield record, where, n


def read_lines(
    hypotheses: Path, references: Sequence[Path] = (), sources: Path | None = None
) -> Outputs:
    """Read line-aligned text files; the id of an item is its line number."""
    return outputs(str(hypotheses), each_line(hypotheses, references, sources), hypotheses.parent)


def each_line(
    hypotheses: Path,
    references: Sequence[Path] = (),
    sources: Path | None = None,
    first: int = 0,
    at: Sequence[int] = (),
) -> Iterator[Item]:
    """The items of line-aligned text files, one at a time, in their order.

    ``first``: how many to leave out; the next one begins at the byte ``at`` of each file: of the
    sources, the hypotheses and the references.
    """
    files = [hypotheses, *references, *([sources] if sources else [])]
    begins = [*at[bool(sources) :], *at[: bool(sources)]] or [0] * len(files)
    read = (text_lines.texts(file, first, begin) for file, begin in zip(files, begins, strict=True))
    for number, lines in enumerate(zip_longest(*read), first + 1):
        if None in lines:
            first, other = (
                sum(1 for _ in text_lines.raw(f)) for f in (hypotheses, files[_odd(lines)])
            )
            raise ValueError(
                f"{hypotheses} has {first} lines, {files[_odd(lines)]} has {other}: lines must "
                "correspond"
            )
        hypothesis, *rest = lines
        source = rest.pop() if sources else None
        yield Item(str(number), hypothesis, tuple(rest), source, number)


def _odd(lines: Sequence[str | None]) -> int:
    """Index of the first file that ends at another line than the first file."""
    return next(n for n, line in enumerate(lines) if (line is None) != (lines[0] is None))


def write(path: Path, items: Iterable[Item], by: Path | None = None) -> None:
    """Write an ``outputs.jsonl``, with every extra key, in order. ``by``: see `whole.write`."""
    whole.write_text(path, "".join(map(_written, items)), by)


def _written(item: Item) -> str:
    """One line."""
    record: dict[str, Any] = {"id": item.id}
    if item.source is not None:
        record["source"] = item.source
    if len(item.references) == 1:
        record["reference"] = item.references[0]
    elif item.references:
        record["references"] = list(item.references)
    record["hypothesis"] = item.hypothesis
    return json.dumps(record | item.extra, ensure_ascii=False, allow_nan=False) + "\n"


def same_items(base: Outputs, other: Outputs) -> None:
    """Two systems can be compared only on the same ids with the same references and sources."""
    ours, theirs = {i.id: i for i in base.items}, {i.id: i for i in other.items}
    for one, two, a, b in ((ours, theirs, base, other), (theirs, ours, other, base)):
        missing = [id for id in one if id not in two]
        if missing:
            raise ValueError(
                f"{b.name} lacks {len(missing)} ids that {a.name} has, such as {missing[0]!r}: "
                "compare outputs for the same items"
            )
    for id, item in ours.items():
        if item.references != theirs[id].references or item.source != theirs[id].source:
            raise ValueError(
                f"{base.name} and {other.name} have different references or sources for id {id!r}: "
                "compare outputs for the same items"
            )


def _item(record: dict[str, Any], where: str, number: int) -> Item:
    id = record["id"]
    if isinstance(id, bool) or not isinstance(id, str | int) or id == "":
        raise ValueError(
            f"{where} has the id {id!r}: an id is a non-empty string or a whole number"
        )
    if "hypothesis" not in record:
        raise ValueError(
            f'{where} has no "hypothesis": write an empty string if the system wrote nothing'
        )
    if "reference" in record and "references" in record:
        raise ValueError(f'{where} has both "reference" and "references": keep one of them')
    references = record["references"] if "references" in record else [record.get("reference")]
    if not isinstance(references, list):
        raise ValueError(
            f'{where}: "references" must be a list of strings; a single string is "reference"'
        )
    source = record.get("source")
    return Item(
        id=_text(str(id), "id", where),
        hypothesis=_text(record["hypothesis"], "hypothesis", where),
        references=tuple(
            _text(r, "reference", where)
            for r in references
            if r is not None or "references" in record
        ),
        source=None if source is None else _text(source, "source", where),
        line=number,
        extra={key: value for key, value in record.items() if key not in tables.COLUMNS},
    )


def _record(text: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except json.JSONDecodeError as error:
        what = (
            "is empty"
            if not text.strip()
            else f"is not JSON ({error.msg} at character {error.pos + 1})"
        )
        raise ValueError(f"{where} {what}: write one JSON object per line") from None
    except RecursionError:
        raise ValueError(
            f"{where} is nested too deeply: write one flat JSON object per line"
        ) from None
    except ValueError as error:
        raise ValueError(f"{where} {error}") from None
    if not isinstance(record, dict):
        raise ValueError(f"{where} is JSON but not an object: write one JSON object per line")
    return record


def _no_constant(name: str) -> None:
    raise ValueError(f"has the value {name}, which is not JSON: write a number, or null")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"has the key {twice!r} twice: keep one of them")
    return record


def _text(value: Any, what: str, where: str) -> str:
    if not isinstance(value, str):
        raise ValueError(
            f"{where}: the {what} is {type(value).__name__}, not a string: write it in quotes"
        )
    whole.check_characters(value, f"{where}: the {what}")
    return value
