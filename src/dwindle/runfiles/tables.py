"""Tables of outputs by other tools: CSV, TSV, Parquet, and folders of ``datasets``.

Rows are plain records, read one at a time, with the columns that are empty left out. CSV and TSV
may be ``.gz``. A TSV of two columns whose first line names none of ``COLUMNS`` is a bitext: sources
and outputs, without a heading and without quoting. Parquet and ``datasets`` need the extra
``data``.
"""

import csv
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from dwindle.runfiles import text_lines

DELIMITERS = {".csv": ",", ".tsv": "\t"}
PARQUET = ".parquet"
DATASET = ("state.json", "dataset_dict.json")
"""Files by which a folder of ``datasets`` is known: one dataset, or several splits."""
COLUMNS = ("id", "source", "reference", "references", "hypothesis")
"""Columns that have a meaning here."""
BITEXT = ["source", "hypothesis"]


def is_table(path: Path) -> bool:
    """True if a path is a table, by its name or, for a folder, by what lies in it."""
    if path.is_dir():
        return any((path / name).is_file() for name in DATASET)
    return text_lines.ending(path) in DELIMITERS or path.suffix.lower() == PARQUET


def is_text(path: Path) -> bool:
    """True if a table is a text file: CSV or TSV."""
    return not path.is_dir() and text_lines.ending(path) in DELIMITERS


def rows(path: Path, first: int = 0) -> Iterator[dict[str, Any]]:
    """The rows of a table, without the ``first`` so many, to the last."""
    if path.is_dir():
        found = _dataset(path, first)
    elif path.suffix.lower() == PARQUET:
        found = _parquet(path, first)
    else:
        found = islice(_delimited(path), first, None)
    for row in found:
        yield {column: value for column, value in row.items() if value is not None}


def _delimited(path: Path) -> Iterator[dict[str, Any]]:
    """Every row has as many fields as there are columns, and an empty field is an empty text."""
    records = parsed(path)
    _, columns = next(records, (b"", []))
    if len(set(columns)) < len(columns):
        raise ValueError(f"{path} has two columns of one name: give each its own")
    for number, (_, fields) in enumerate(records, 1):
        if len(fields) != len(columns):
            raise ValueError(
                f"{path}, row {number} has {len(fields)} fields for {len(columns)} columns"
            )
        yield dict(zip(columns, fields, strict=True))


def parsed(path: Path) -> Iterator[tuple[bytes, list[str]]]:
    """The names of the columns, then the rows of a CSV or TSV file, each with its bytes.

    The names of a bitext are not in the file: their bytes are empty.
    """
    lines = text_lines.raw(path)
    first = next(lines, b"")
    delimiter = DELIMITERS[text_lines.ending(path)]
    fields = text_lines.decoded(first, path, 1).split(delimiter)
    if (
        delimiter == "\t"
        and len(fields) == len(BITEXT)
        and not {f.strip('"') for f in fields} & set(COLUMNS)
    ):
        yield b"", BITEXT
        yield first, fields
        for number, line in enumerate(lines, 2):
            yield line, text_lines.decoded(line, path, number).split(delimiter)
        return
    # the lines of the row that is being read: a quoted field may go over several
    met: list[bytes] = []

    def fed() -> Iterator[str]:
        for number, line in enumerate(chain([first], lines), 1):
            met.append(line)
            yield text_lines.decoded(line, path, number) + "\n"

    reader = csv.reader(fed(), delimiter=delimiter)
    try:
        for row in reader:
            if row:  # a blank line has no fields
                yield b"".join(met), row
            met.clear()
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {reader.line_num} cannot be read ({error}): write it again as CSV"
        ) from None


def _parquet(path: Path, first: int) -> Iterator[dict[str, Any]]:
    try:
        from pyarrow import lib, parquet  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise ValueError("Parquet needs pyarrow: type pip install 'dwindle[data]'") from None
    try:
        with parquet.ParquetFile(path) as file:
            group = 0
            while group < file.num_row_groups and first >= (
                held := file.metadata.row_group(group).num_rows
            ):
                group, first = group + 1, first - held
            for batch in file.iter_batches(row_groups=range(group, file.num_row_groups)):
                yield from batch.slice(first).to_pylist()
                first = max(0, first - len(batch))
    except lib.ArrowException as error:
        raise ValueError(
            f"{path} is not Parquet ({str(error).splitlines()[0]}): write it again"
        ) from None


def _dataset(path: Path, first: int) -> Iterator[dict[str, Any]]:
    try:
        import datasets  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise ValueError(
            "a folder of datasets needs that library: type pip install 'dwindle[data]'"
        ) from None
    found = datasets.load_from_disk(str(path))
    if isinstance(found, datasets.DatasetDict):
        raise ValueError(
            f"{path} has the splits {', '.join(found)}: name the folder of one, such as "
            f"{path}/{next(iter(found))}"
        )
    yield from found.skip(first)
