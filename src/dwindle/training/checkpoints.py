"""Checkpoints on disk: whole or not there. They are written beside their place and moved into it when finished."""

import re
import shutil
from pathlib import Path

WRITING = ".writing"
"""The folder in which a checkpoint grows. What is found there was never finished."""
KEPT = 2


def step_of(checkpoint: Path) -> int:
    """The step that a checkpoint is of; -1 for what is none."""
    name = re.fullmatch(r"checkpoint-(\d+)", checkpoint.name)
    return int(name[1]) if name and (checkpoint / "trainer_state.json").is_file() else -1


def checkpoints(folder: Path) -> list[Path]:
    """The whole checkpoints in ``folder``, the last one last."""
    found = [path for path in folder.glob("checkpoint-*") if step_of(path) >= 0]
    return sorted(found, key=step_of)


def last_step(folder: Path) -> int:
    """The step that training would go on from."""
    found = checkpoints(folder)
    return step_of(found[-1]) if found else 0


def keep(folder: Path, step: int) -> None:
    """Move the checkpoint of ``step`` to its place, and let go of older ones."""
    name = f"checkpoint-{step}"
    shutil.rmtree(folder / name, ignore_errors=True)  # a whole one is not written twice
    (folder / WRITING / name).rename(folder / name)
    clear(folder)
    for old in checkpoints(folder)[:-KEPT]:
        shutil.rmtree(old)


def clear(folder: Path) -> None:
    """Remove what was never finished."""
    shutil.rmtree(folder / WRITING, ignore_errors=True)
