"""Options and files of the verbs that work on whole corpora: patterns, engines, output folders."""

import contextlib
from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dwindle.runfiles import tables, text_lines, whole

if TYPE_CHECKING:
    from dwindle.bulk.shards import Engine

Ray = Annotated[
    str | None,
    typer.Option(
        metavar="[ADDRESS]",
        help="Work with the workers of the Ray cluster at this address, or of one that is "
        "started here.",
        show_default=False,
    ),
]
FORMATS = (".jsonl", tables.PARQUET)
"""Formats of the files of a corpus that are written as they are read."""


def engine(address: str | None) -> "Engine":
    """This process, or the cluster of that address."""
    from dwindle.bulk import cluster, shards

    return shards.alone if address is None else cluster.engine(address)


def connected(address: str) -> contextlib.AbstractContextManager[None]:
    """One connection to the cluster of that address, for several pieces of work."""
    from dwindle.bulk import cluster

    return cluster.connected(address)


def is_pattern(name: Path) -> bool:
    """True if a name is not that of a file or folder, but a pattern such as ``pairs/*.jsonl``."""
    return not name.exists() and any(mark in str(name) for mark in "*?[")


def matched(name: Path) -> list[Path]:
    """The files of a name or pattern, sorted."""
    if not is_pattern(name):
        return [name]
    matches = sorted(map(Path, glob(str(name), recursive=True)))  # noqa: PTH207
    if not matches:
        raise ValueError(f"no file is called {name}: check the pattern")
    return matches


def check_formats(files: Sequence[Path]) -> None:
    """Refuse files that are neither JSONL nor Parquet, and some of both."""
    for file in files:
        if not file.is_file():
            raise ValueError(f"there is no file {file}: name JSONL or Parquet files")
        if text_lines.ending(file) not in FORMATS:
            raise ValueError(f"{file} is neither JSONL nor Parquet: write it again as one of them")
    endings = {text_lines.ending(file): file for file in files}
    if len(endings) > 1:
        one, two = endings.values()
        raise ValueError(f"{one} and {two} have different formats: name files of one format")


@contextlib.contextmanager
def output_folder(folder: Path, files: Sequence[Path]) -> Iterator[None]:
    """A folder for outputs with the names of ``files``, for this command alone."""
    names = [file.name for file in files]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(
            f"two files are called {twice[0]}, and their outputs would be too: give each a name "
            "of its own"
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: name a folder for the outputs")
    for file in files:
        if file.resolve() == (folder / file.name).resolve():
            raise ValueError(f"{folder} is the folder of the input: name another for the outputs")
    with whole.locked(folder):
        yield
