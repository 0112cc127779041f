"""Folders in the user's cache for results that are made once and used by all runs, each named after
everything that decides its content.

They can be deleted at any time. ``XDG_CACHE_HOME`` says where they are.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def home() -> Path:
    """The project's folder in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dwindle"


def digest(key: Any) -> str:
    """A short name for plain values."""
    return hashlib.blake2b(
        json.dumps(key, sort_keys=True, default=str).encode(), digest_size=12
    ).hexdigest()


def kept(name: str, key: Any, make: Callable[[Path], None], place: Path | None = None) -> Path:
    """The folder of this name and key in ``place`` (None: the user's cache), filled by ``make``.

    One process makes it while all others wait. It appears in one move when it is finished, so that
    a killed process leaves nothing half-made.
    """
    import filelock

    folder = (place or home()) / f"{name}-{digest(key)}"
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder.with_suffix(".lock")):
            if not folder.is_dir():
                _make(folder, make)
    except OSError as error:
        raise OSError(
            f"{folder} cannot be written ({error}): free some space, or name another folder with "
            "XDG_CACHE_HOME"
        ) from error
    return folder


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".making-"))
    try:
        make(part)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
