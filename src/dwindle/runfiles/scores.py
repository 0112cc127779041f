"""The scores of a run, ``scores.json``: how many items were scored, and a record for every metric.

A record has the metric's name, its value, its interval (``low``, ``high``, or null) and its
signature. ``outputs`` is the digest of the file that was scored: scores of other outputs are not
scores of this run.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dwindle.runfiles import names, whole

_REMEDY = "delete it and score the run again"


@dataclass(frozen=True)
class Scores:
    """The scores that were written when the run was made."""

    items: int
    records: tuple[dict[str, Any], ...]
    outputs: str | None = None
    """The digest of what was scored; None: nobody says."""


def write(folder: Path, items: int, records: Iterable[dict[str, Any]]) -> None:
    """Write the scores of the outputs in ``folder``."""
    content = {"items": items, "outputs": _digest(folder / names.OUTPUTS), "scores": list(records)}
    whole.write_json(folder / names.SCORES, content)


def add(folder: Path, items: int, records: Iterable[dict[str, Any]]) -> None:
    """Write these scores, and keep those of other metrics if they are of the same outputs."""
    kept = read(folder).records if fit(folder) else ()
    write(folder, items, {record["metric"]: record for record in [*kept, *records]}.values())


def read(folder: Path) -> Scores:
    """The scores in ``folder``."""
    path = folder / names.SCORES
    content = whole.read_json(path, _REMEDY)
    items, records = content.get("items"), content.get("scores")
    if type(items) is not int or not isinstance(records, list) or not all(map(_is_record, records)):
        raise ValueError(f"{path} holds no scores: {_REMEDY}")
    return Scores(items, tuple(records), content.get("outputs"))


def fit(folder: Path) -> bool:
    """True if there are scores, and they are of the outputs that are there."""
    if not all((folder / name).is_file() for name in (names.SCORES, names.OUTPUTS)):
        return False
    of = read(folder).outputs
    return of is None or of == _digest(folder / names.OUTPUTS)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _is_record(record: Any) -> bool:
    if not isinstance(record, dict) or not isinstance(record.get("metric"), str):
        return False
    bounds = (record.get("low"), record.get("high"))
    return _is_number(record.get("value")) and all(
        bound is None or _is_number(bound) for bound in bounds
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
