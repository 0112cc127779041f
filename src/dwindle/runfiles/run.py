"""One run, read from its files. ``dwindle.runs.job`` writes them.

A plain file of outputs, from any system, is a run too; nothing else is known about it.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any, Self

from dwindle.runfiles import arrays, names, outputs, scores, tables, text_lines, whole
from dwindle.runfiles.outputs import Item, Outputs
from dwindle.runfiles.scores import Scores

_REMEDY = "restore it, or start the run in another folder"


class Run:
    """The folder of a run, or a file of outputs. Each file is read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def model(self) -> Path:
        return self.path / names.MODEL

    def file(self, name: str) -> Path | None:
        """A file of the folder, if it is there."""
        file = self.path / name
        return file if file.is_file() else None

    @property
    def outputs_file(self) -> Path:
        is_outputs = self.path.is_file() or tables.is_table(self.path)
        is_misspelt = bool(self.path.suffix) and not self.path.exists()  # a file, not a folder
        return self.path if is_outputs or is_misspelt else self.path / names.OUTPUTS

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that the outputs are read from."""
        path = self.outputs_file
        return (
            tuple(sorted(file for file in path.iterdir() if file.is_file()))
            if path.is_dir()
            else (path,)
        )

    def each(self, first: int = 0, at: Sequence[int] = ()) -> Iterator[Item]:
        """The outputs one at a time, in the order of the file, however many there are.

        ``first``: how many to leave out; ``at``: where the next one begins, as `starts` tells.
        """
        return outputs.each(self.outputs_file, first, *at)

    def starts(self, every: int) -> Iterator[tuple[int, ...]]:
        """Starts of the first output, of the one that comes ``every`` outputs after it, and so on:
        the byte of each of ``files``. A table finds its rows itself, so its starts are 0."""
        if tables.is_table(self.outputs_file):
            return repeat((0,))
        return ((at,) for at in text_lines.starts(self.outputs_file, every))

    def checked(self) -> Self:
        """This run, after reading every file, so that damage shows now."""
        for read in ("outputs", "scores", "settings", "record"):
            getattr(self, read)
        return self

    def damage(self) -> list[str]:
        """Faults of files that a run can be shown without, a sentence each."""
        found = []
        readers = {names.COVERAGE: arrays.read_coverage, names.TRACES: arrays.read_traces}
        for name, read in readers.items():
            file = self.file(name)
            try:
                if file:
                    read(file)
            except ValueError as error:
                found.append(str(error))
        if self.file(names.SCORES) and not scores.fit(self.path):
            found.append(
                f"{self.path / names.SCORES} is of other outputs: type dwindle score {self}"
            )
        return found

    @cached_property
    def outputs(self) -> Outputs:
        return outputs.read(self.outputs_file)

    @property
    def scores(self) -> Scores:
        """The scores; none if there is no such file, or if it is of other outputs."""
        return (
            scores.read(self.path)
            if self.file(names.SCORES) and scores.fit(self.path)
            else Scores(0, ())
        )

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The recipe as plain values; empty where there is none."""
        file = self.file(names.RECIPE)
        return _yaml(file) if file else {}

    @property
    def record(self) -> dict[str, Any]:
        """The steps that were done, when and with what; empty if that is not known."""
        file = self.file(names.RECORD)
        if not file:
            return {}
        record = whole.read_json(file, _REMEDY)
        stages, start = record.get("stages"), record.get("start")
        if not isinstance(stages, dict) or not all(
            isinstance(stage, dict) for stage in stages.values()
        ):
            raise ValueError(f"{file} has no stages: {_REMEDY}")
        if start is not None and not isinstance(start, str):
            raise ValueError(f"{file} has the start {start!r}, which is not a folder: {_REMEDY}")
        return record


class AlignedRun(Run):
    """Line-aligned text files as a run: outputs at ``path``, their references and sources."""

    def __init__(
        self, path: Path, references: Sequence[Path] = (), sources: Path | None = None
    ) -> None:
        super().__init__(path)
        self._references, self._sources = references, sources

    @property
    def files(self) -> tuple[Path, ...]:
        return (*([self._sources] if self._sources else []), self.path, *self._references)

    def each(self, first: int = 0, at: Sequence[int] = ()) -> Iterator[Item]:
        return outputs.each_line(self.path, self._references, self._sources, first, at)

    def starts(self, every: int) -> Iterator[tuple[int, ...]]:
        return zip(*(text_lines.starts(file, every) for file in self.files), strict=True)

    @cached_property
    def outputs(self) -> Outputs:
        return outputs.read_lines(self.path, self._references, self._sources)


def _yaml(file: Path) -> dict[str, Any]:
    import yaml  # comes with every install that can make the folder of a run

    try:
        settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{file} is not YAML ({type(error).__name__}): write it again from its recipe"
        ) from None
    if not isinstance(settings, dict):
        raise ValueError(f"{file} is not a recipe: write it again from its recipe")
    return settings


def findings_of(outputs: Path) -> Path:
    """The default file for the findings of a file of outputs: Parquet for Parquet, else JSONL."""
    parquet = outputs.suffix.lower() == tables.PARQUET
    return outputs.with_suffix(f"{names.FINDINGS}{tables.PARQUET if parquet else '.jsonl'}")


def ears_of(findings: Path) -> Path:
    """The file of listeners beside a file of findings; a report reads their error rate there."""
    return findings.with_suffix(".listeners.json")
