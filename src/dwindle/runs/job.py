"""A job: a recipe that is carried out in the folder of a run. Knows which steps are done and lets
one command at a time work in the folder. Knows no model.

Files appear whole or not at all, so a step that was cut off is simply not done, and is taken up
again.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from dwindle.data.example import Example, Split
from dwindle.data.load import load
from dwindle.runfiles import names, scores, whole
from dwindle.runfiles.run import Run
from dwindle.runs import recipe
from dwindle.runs.recipe import Recipe
from dwindle.system import machine

_SHOWN = 4  # number of differing keys that a refusal names


class Job(Run):
    """One run's folder and the recipe that is carried out in it."""

    def __init__(self, folder: Path, recipe: Recipe, start: Path | None = None) -> None:
        super().__init__(folder)
        self.recipe = recipe
        self.start = start
        """The folder of the run whose model this one continues, if its recipe has a start."""
        self._examples: dict[Split, Sequence[Example]] = {}

    def examples(self, split: Split) -> Sequence[Example]:
        """The recipe's examples; read once."""
        if split not in self._examples:
            self._examples[split] = load(self.recipe.data, split)
        return self._examples[split]

    def done(self, stage: str) -> bool:
        """True if a step is done: it is written down, and its files are there. Scores must belong
        to the outputs that are there."""
        if stage == "score":
            return scores.fit(self.path)
        left = self.model.is_dir() if stage == "train" else self.file(names.OUTPUTS) is not None
        return stage in self.record["stages"] and left

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Time a step and write down that it is done, with what the caller puts into the
        dictionary."""
        began, clock = _now(), time.monotonic()
        counts: dict[str, Any] = {}
        yield counts
        wait()
        if machine.is_first():
            record = self.record
            took = {"began": began, "ended": _now(), "seconds": round(time.monotonic() - clock, 2)}
            told = {"processes": machine.processes()} | counts | {"with": machine.surroundings()}
            record["stages"][name] = took | told
            whole.write_json(self.path / names.RECORD, record)
        wait()


@contextlib.contextmanager
def opened(folder: Path, wanted: Recipe, start: Path | None) -> Iterator[Job]:
    """The job of a recipe in a folder that is new or has this recipe, for this command alone."""
    with _locked(folder):
        if machine.is_first():
            if (folder / names.RECIPE).exists():
                _same(folder, wanted)
            elif any(p.name not in (names.LOCK, names.START) for p in folder.iterdir()):
                raise ValueError(
                    f"{folder} holds files but no run: choose an empty folder, or a new one"
                )
            else:
                whole.write_text(folder / names.RECIPE, recipe.text(wanted))
            if not (folder / names.RECORD).exists():
                where = None if start is None else os.path.relpath(start, folder)
                record = {"recipe": wanted.name, "seed": wanted.seed, "start": where, "stages": {}}
                whole.write_json(folder / names.RECORD, record)
        wait()
        yield Job(folder, wanted, start)


def find(folder: Path) -> Job:
    """The job whose run a folder holds."""
    if not (folder / names.RECIPE).is_file() or not (folder / names.RECORD).is_file():
        raise ValueError(
            f"{folder} holds no run: make one with 'dwindle run RECIPE --out {folder}'"
        )
    job = Job(folder, recipe.read(folder / names.RECIPE))
    where = job.record.get("start")
    job.start = None if where is None else Path(os.path.normpath(folder / where))
    return job


def _same(folder: Path, wanted: Recipe) -> None:
    differing = recipe.changes(recipe.read(folder / names.RECIPE), wanted)
    if differing:
        shown = [
            f"{change.key} is {change.before!r} there and {change.after!r} here"
            for change in differing
        ]
        more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        raise ValueError(
            f"{folder} is the run of another recipe ({'; '.join(shown[:_SHOWN])}{more}): choose "
            "another --out"
        )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One command at a time works in a folder. Processes launched together are one command."""
    if not machine.is_first():
        yield
        return
    with whole.locked(folder):
        yield


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def wait() -> None:
    """Go on when all processes that were launched together have come here."""
    if machine.processes() > 1:
        from accelerate import PartialState  # the trainer's processes wait for each other by it too

        PartialState(cpu=not torch.accelerator.is_available()).wait_for_everyone()
