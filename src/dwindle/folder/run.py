"""One run, as its files tell it. Whoever carries a recipe out adds to them; see ``dwindle.runs.job``.

A plain file of outputs, from any system, is a run too, of which nothing else is known.
"""

from functools import cached_property
from pathlib import Path
from typing import Any, Self

from dwindle.folder import coverage_file, names, outputs, scores, traces, whole
from dwindle.folder.outputs import Outputs
from dwindle.folder.scores import Scores

_REMEDY = "restore it, or start the run in another folder"


class Run:
    """What lies at ``path``: the folder of a run, or a file of outputs. Each file is read when it is asked for."""

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
        return self.path if self.path.is_file() else self.path / names.OUTPUTS

    def checked(self) -> Self:
        """This run, once every file was read: what is damaged shows now."""
        for read in ("outputs", "scores", "settings", "record"):
            getattr(self, read)
        return self

    def damage(self) -> list[str]:
        """What is wrong with the files that a run can be shown without, a sentence each."""
        found = []
        for name, read in ((names.COVERAGE, coverage_file.read), (names.TRACES, traces.read)):
            file = self.file(name)
            try:
                if file:
                    read(file)
            except ValueError as error:
                found.append(str(error))
        if self.file(names.SCORES) and not scores.fit(self.path):
            found.append(f"{self.path / names.SCORES} is of other outputs: type dwindle score {self}")
        return found

    @cached_property
    def outputs(self) -> Outputs:
        return outputs.read(self.outputs_file)

    @property
    def scores(self) -> Scores:
        """What was scored; nothing yet where there is no such file, or where it is of other outputs."""
        return scores.read(self.path) if self.file(names.SCORES) and scores.fit(self.path) else Scores(0, ())

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The recipe as plain values; empty where there is none."""
        file = self.file(names.RECIPE)
        return _yaml(file) if file else {}

    @property
    def record(self) -> dict[str, Any]:
        """What was done, when and with what; empty where that is not known."""
        file = self.file(names.RECORD)
        if not file:
            return {}
        record = whole.read_json(file, _REMEDY)
        stages, start = record.get("stages"), record.get("start")
        if not isinstance(stages, dict) or not all(isinstance(stage, dict) for stage in stages.values()):
            raise ValueError(f"{file} has no stages: {_REMEDY}")
        if start is not None and not isinstance(start, str):
            raise ValueError(f"{file} has the start {start!r}, which is not a folder: {_REMEDY}")
        return record


def _yaml(file: Path) -> dict[str, Any]:
    import yaml  # comes with every install that can make the folder of a run

    try:
        settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not YAML ({type(error).__name__}): write it again from its recipe") from None
    if not isinstance(settings, dict):
        raise ValueError(f"{file} is not a recipe: write it again from its recipe")
    return settings
