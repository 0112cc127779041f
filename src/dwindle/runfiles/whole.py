"""Files that are whole: written whole or not at all, and read whole or refused in one sentence."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dwindle.runfiles import names


def write(path: Path, content: bytes, by: Path | None = None) -> None:
    """Write a file that is there whole or not at all, even after the power has failed.

    ``by``: the folder for what a killed process leaves behind; None: that of the file.
    """
    part = (by or path.parent) / f".{path.name}.{os.getpid()}"
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str, by: Path | None = None) -> None:
    write(path, text.encode(), by)


def write_json(path: Path, value: Any, by: Path | None = None) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", by)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around libraries that write to ``path``: those of weights raise classes of their own where a
    disk is full."""
    try:
        yield
    except (OSError, ValueError):
        raise
    except Exception as error:
        raise OSError(
            f"{path} could not be written ({error}): make room there, and run the same again"
        ) from error


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One command at a time works in a folder, which is made if it is not there."""
    import filelock  # comes with every install that can run a model

    folder.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(folder / names.LOCK, timeout=0):
            yield
    except filelock.Timeout:
        raise ValueError(
            f"another process is working in {folder}: wait for it, or choose another folder"
        ) from None


def read_text(path: Path) -> str:
    """The text of a file somebody else has written."""
    content = path.read_bytes()
    try:
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line} is not UTF-8 ({error.reason}): save it as UTF-8"
        ) from None


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The JSON object that a file holds. ``remedy``: what to do if it holds none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}): {remedy}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} does not hold a JSON object: {remedy}")
    return content


def check_characters(text: str, where: str) -> None:
    """Refuse half of a surrogate pair, which JSON can spell and no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where} has half of a surrogate pair: write whole characters") from None
