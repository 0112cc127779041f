"""Data sets of the `datasets` library: by hub name, or a local copy (a folder of parquet files as
the hub keeps them, or one that ``save_to_disk`` wrote). Memory-mapped, so size does not matter.
Knows no corpus.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from hashlib import blake2b, file_digest
from io import RawIOBase
from pathlib import Path
from typing import Any

from dwindle.data.example import Example, Lazy, Split
from dwindle.data.files import folder, kept, split_names
from dwindle.data.settings import DataSettings
from dwindle.system.hub import absence

PREFIX = "hub:"
_CONTENTS = "contents-"
"""A local data set is called this and the digest of its files."""


def is_local(path: Path) -> bool:
    """True if a folder holds a data set of the library."""
    return (path / "dataset_dict.json").is_file() or next(path.rglob("*.parquet"), None) is not None


def open(settings: DataSettings, split: Split, name: str, config: str, advice: str) -> Any:
    """A split of the hub's ``name``, of ``hub:NAME`` or of a folder, as a `datasets.Dataset`."""
    try:
        import datasets  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise ValueError(
            f"{settings.corpus} from the hub needs datasets: type pip install 'dwindle[data]'"
        ) from None
    if settings.path is not None and not settings.path.startswith(PREFIX):
        return _local(datasets, folder(settings, advice), split, config)
    name = settings.path.removeprefix(PREFIX) if settings.path else name
    absent = absence(name, "data set")
    try:
        with _offline(datasets) if absent else nullcontext():
            return datasets.load_dataset(
                name, config, split="validation" if split == "dev" else split
            )
    except (OSError, ValueError, RuntimeError) as error:
        why = absent or str(error).split("\n")[0].rstrip(".")
        raise ValueError(f"the hub did not give {name} ({why}): {advice}") from None


@contextmanager
def _offline(datasets: Any) -> Iterator[None]:
    """The library looks only into its cache. It would ask the hub six times first."""
    before = datasets.config.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = before


def _local(datasets: Any, place: Path, split: Split, config: str) -> Any:
    names = split_names(split)
    if (place / "dataset_dict.json").is_file():
        saved = datasets.load_from_disk(str(place))
        found = [name for name in names if name in saved]
        if found:
            return saved[found[0]]
    below = place / config if (place / config).is_dir() else place
    files = sorted(
        str(f)
        for f in below.rglob("*.parquet")
        if f.name.startswith(names) or f.parent.name in names
    )
    if not files:
        raise ValueError(
            f"{place} has no parquet file of the {split} split: name it {split}-00000.parquet or "
            "similar"
        )
    try:
        # The library keeps what it read by the names and dates of files: a name of the contents
        # keeps another text of the same date apart.
        return datasets.load_dataset(
            "parquet", _CONTENTS + _digest(files), data_files={split: files}, split=split
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{files[0]} cannot be read as parquet ({_cause(error)}): get it again"
        ) from None


def _digest(files: Sequence[str]) -> str:
    """A name of what files hold."""
    found = blake2b(digest_size=12)
    for name in files:
        with Path(name).open("rb") as file:
            found.update(file_digest(file, "blake2b").digest())
    return found.hexdigest()


def _contents(dataset: Any, count: int) -> str:
    """A digest of the first ``count`` rows. The library's own fingerprint of a table may be one of
    names and dates."""
    if str(dataset.info.config_name).startswith(_CONTENTS):
        return str(dataset.info.config_name)
    import pyarrow as pa  # type: ignore[import-untyped]

    sink = _Sink()
    rows = dataset.data.table.slice(0, count)
    with pa.PythonFile(sink, mode="w") as out, pa.ipc.new_stream(out, rows.schema) as stream:
        stream.write_table(rows)
    return sink.digest.hexdigest()


class _Sink(RawIOBase):
    """A file that only digests what is written to it."""

    def __init__(self) -> None:
        self.digest = blake2b(digest_size=12)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return len(data)


def _cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).split("\n")[0].rstrip(".")


def column(dataset: Any, *path: str) -> Any:
    """A column as an Arrow array, such as ("article",) or ("translation", "de")."""
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    if path[0] not in dataset.column_names:
        raise ValueError(
            f"the data set has no column {path[0]!r} but "
            f"{', '.join(map(repr, dataset.column_names))}"
        )
    values = dataset.data.column(path[0])
    for name in path[1:]:
        if not pa.types.is_struct(values.type) or values.type.get_field_index(name) < 0:
            raise ValueError(f"the column {path[0]!r} has no {name!r} inside: it is {values.type}")
        values = pc.struct_field(values, name)
    return values


def examples(
    settings: DataSettings,
    split: Split,
    dataset: Any,
    columns: Sequence[tuple[str, ...]],
    make: Callable[[Any, int], Example],
) -> Sequence[Example]:
    """``make(dataset, row)`` for each row in which these columns are not empty."""
    wanted = settings.size.of(split)
    count = len(dataset) if wanted is None else min(wanted, len(dataset))
    if "id" in dataset.column_names:
        _check_ids(column(dataset, "id").slice(0, count), f"the {split} split of {settings.corpus}")
    empty = sorted(
        {row for path in columns for row in _empty(column(dataset, *path).slice(0, count))}
    )
    places = kept(
        count, empty, split, lambda row: f"row {row + 1} of the {split} split of {settings.corpus}"
    )
    return Lazy(partial(make, dataset), places, partial(_contents, dataset, count))


def _check_ids(values: Any, where: str) -> None:
    import pyarrow.compute as pc

    counts = pc.value_counts(values)
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        raise ValueError(
            f"{where} has the id {twice[0]['values'].as_py()!r} twice: ids must differ"
        )


def _empty(values: Any) -> list[int]:
    """The rows without a visible character, found without making Python strings."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return []
    blank = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(values), ""), True)
    return [int(row) for row in pc.indices_nonzero(blank).to_pylist()]
