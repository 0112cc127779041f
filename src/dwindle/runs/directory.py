"""The folder of a run: what is in it, what is done, and what made it. Knows no model.

    recipe.yaml    every setting, defaults filled in
    run.json       each step that is done: when, how long, how many processes, with which versions and git state
    model/         the trained weights, with all that is needed to load them
    checkpoints/   of an unfinished training
    logs/          for TensorBoard
    outputs.jsonl, coverage.npz, traces.npz, decoding.json, scores.json

Files appear whole or not at all, so a step that was cut off is simply not done, and is taken up again.
"""

import contextlib
import functools
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import filelock

import dwindle
from dwindle.generation.parts import write_whole
from dwindle.metrics.score import Score
from dwindle.runs import processes, recipe
from dwindle.runs.recipe import Recipe

_PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "numpy", "sacrebleu")
_SHOWN = 4  # differing keys in a refusal


class Run:
    """One run's folder."""

    def __init__(self, folder: Path, recipe: Recipe, start: Path | None = None) -> None:
        self.folder = folder
        self.recipe = recipe
        self.start = start
        """The folder of the run whose model this one continues, if its recipe has a start."""

    model = property(lambda self: self.folder / "model")
    outputs = property(lambda self: self.folder / "outputs.jsonl")
    scores = property(lambda self: self.folder / "scores.json")

    def __str__(self) -> str:
        return str(self.folder)

    @property
    def record(self) -> dict[str, Any]:
        """What run.json says."""
        path = self.folder / "run.json"
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise ValueError(f"{path} is not JSON: restore it, or start the run in another folder") from None
        return record

    def done(self, stage: str) -> bool:
        """Whether a step is done. Scores are when they are there."""
        return self.scores.is_file() if stage == "score" else stage in self.record["stages"]

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Time a step and write down that it is done. What the caller puts into the dictionary is kept with it."""
        began, clock = _now(), time.monotonic()
        counts: dict[str, Any] = {}
        yield counts
        processes.wait()
        if processes.first():
            record = self.record
            took = {"began": began, "ended": _now(), "seconds": round(time.monotonic() - clock, 2)}
            record["stages"][name] = took | {"processes": processes.count()} | counts | {"with": _surroundings()}
            write_json(self.folder / "run.json", record)
        processes.wait()

    def keep_scores(self, items: int, scores: Iterable[Score]) -> None:
        """Write scores.json. Anyone may do so at any time: it follows from the outputs."""
        write_json(self.scores, {"items": items, "scores": [score.record for score in scores]})


@contextlib.contextmanager
def opened(folder: Path, wanted: Recipe, start: Path | None) -> Iterator[Run]:
    """The run of a recipe in a folder that is new, or has this recipe; nobody else may work in it meanwhile."""
    with _locked(folder):
        if processes.first():
            if (folder / "recipe.yaml").exists():
                _same(folder, wanted)
            elif any(p.name not in (".lock", "start") for p in folder.iterdir()):
                raise ValueError(f"{folder} holds files but no run: choose an empty folder, or a new one")
            else:
                write_text(folder / "recipe.yaml", recipe.text(wanted))
            if not (folder / "run.json").exists():
                where = None if start is None else os.path.relpath(start, folder)
                record = {"recipe": wanted.name, "seed": wanted.seed, "start": where, "stages": {}}
                write_json(folder / "run.json", record)
        processes.wait()
        yield Run(folder, wanted, start)


def find(folder: Path) -> Run:
    """The run that a folder holds."""
    if not (folder / "recipe.yaml").is_file() or not (folder / "run.json").is_file():
        raise ValueError(f"{folder} holds no run: make one with 'dwindle run RECIPE --out {folder}'")
    run = Run(folder, recipe.read(folder / "recipe.yaml"))
    where = run.record["start"]
    run.start = None if where is None else Path(os.path.normpath(folder / where))
    return run


def _same(folder: Path, wanted: Recipe) -> None:
    differing = recipe.differences(recipe.read(folder / "recipe.yaml"), wanted)
    if differing:
        shown = [f"{key} is {was!r} there and {now!r} here" for key, (was, now) in differing.items()]
        more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        raise ValueError(
            f"{folder} is the run of another recipe ({'; '.join(shown[:_SHOWN])}{more}): choose another --out"
        )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one command at a time works in a folder. Processes that were launched together are one command."""
    if not processes.first():
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(folder / ".lock", timeout=0):
            yield
    except filelock.Timeout:
        raise ValueError(f"another process is working in {folder}: wait for it, or choose another folder") from None


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    write_whole(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@functools.cache
def _surroundings() -> dict[str, Any]:
    """The versions, the code's git state and the machine, as this process found them."""
    versions = {"python": platform.python_version(), "dwindle": dwindle.__version__}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    machine = {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()}
    return {
        "versions": versions,
        "git": _git(Path(dwindle.__file__)),
        "machine": machine | _gpus(),
        "command": sys.argv,
    }


def _gpus() -> dict[str, Any]:
    import torch

    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {"gpus": names} if names else {}


def _git(file: Path) -> dict[str, Any] | None:
    """The commit that a file of the code is at, and whether anything beside it was changed; None outside git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(file.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", file.name)
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None
