"""Checkpoints on disk: whole or not there. They are written beside their place and moved into it
when finished, with a list of their files: one that was damaged since is noticed."""

import hashlib
import json
import re
import shutil
import warnings
from pathlib import Path

WRITING = ".writing"
"""The folder in which a checkpoint is written. Files found there were never finished."""
LISTED = "files.json"
"""The digest of each file of a checkpoint."""
MADE_OF = "made_of.json"
"""Digests of the texts and the codec that a checkpoint was trained with."""
KEPT = 2
"""Smallest number of last checkpoints that are kept."""


def step_of(checkpoint: Path) -> int:
    """The step of a checkpoint; -1 for a folder that is not one."""
    name = re.fullmatch(r"checkpoint-(\d+)", checkpoint.name)
    return int(name[1]) if name and (checkpoint / "trainer_state.json").is_file() else -1


def checkpoints(folder: Path) -> list[Path]:
    """The whole checkpoints in ``folder``, the last one last."""
    found = [path for path in folder.glob("checkpoint-*") if step_of(path) >= 0]
    return sorted(found, key=step_of)


def last_step(folder: Path) -> int:
    """The step from which training would resume."""
    found = checkpoints(folder)
    return step_of(found[-1]) if found else 0


def check_same(folder: Path, made_of: dict[str, str]) -> None:
    """Refuse to go on from checkpoints that were trained with other texts or another codec: the ids
    of the new ones would mean other words."""
    found = checkpoints(folder)
    if not found or not (found[-1] / MADE_OF).is_file():
        return
    before = json.loads((found[-1] / MADE_OF).read_text(encoding="utf-8"))
    other = [name for name in made_of if before.get(name) != made_of[name]]
    if other:
        raise ValueError(
            f"the checkpoints in {folder} were trained with another "
            f"{' and another '.join(other)}: bring the old files "
            "back to go on, or train in another folder"
        )


def keep(folder: Path, step: int, count: int = KEPT, made_of: dict[str, str] | None = None) -> None:
    """Move the checkpoint of ``step`` to its place, and remove all but the last ``count``."""
    name = f"checkpoint-{step}"
    shutil.rmtree(folder / name, ignore_errors=True)  # a whole one is not written twice
    written = folder / WRITING / name
    if made_of is not None:
        (written / MADE_OF).write_text(json.dumps(made_of), encoding="utf-8")
    (written / LISTED).write_text(json.dumps(_digests(written)), encoding="utf-8")
    written.rename(folder / name)
    clear(folder)
    for old in checkpoints(folder)[: -max(count, KEPT)]:
        shutil.rmtree(old)


def drop_damaged(folder: Path) -> None:
    """Remove the checkpoints whose files are not as they were written, and say so."""
    for path in checkpoints(folder):
        if not (damage := _damage(path)):
            continue
        shutil.rmtree(path)
        step = last_step(folder)
        warnings.warn(
            f"{path} is damaged ({damage}) and removed: training goes on from step {step}",
            stacklevel=3,
        )


def _damage(checkpoint: Path) -> str | None:
    """The fault of a checkpoint in words; None if it is whole."""
    try:
        listed = json.loads((checkpoint / LISTED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"its {LISTED} cannot be read"
    found = _digests(checkpoint)
    return next(
        (f"{name} is not as it was written" for name in listed if found.get(name) != listed[name]),
        None,
    )


def _digests(checkpoint: Path) -> dict[str, str]:
    digests = {}
    for file in sorted(checkpoint.iterdir()):
        if file.name != LISTED:
            with file.open("rb") as opened:
                digests[file.name] = hashlib.file_digest(opened, "blake2b").hexdigest()
    return digests


def clear(folder: Path) -> None:
    """Remove unfinished checkpoints."""
    shutil.rmtree(folder / WRITING, ignore_errors=True)
