"""The scores of a run, ``scores.json``: how many items were scored, and a record for every metric.

A record has the metric's name, its value, its interval (``low``, ``high``, or null) and its signature.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dwindle.folder import whole

_REMEDY = "delete it and score the run again"


@dataclass(frozen=True)
class Scores:
    """What was scored when the run was made."""

    items: int
    records: tuple[dict[str, Any], ...]


def write(path: Path, items: int, records: Iterable[dict[str, Any]]) -> None:
    whole.write_json(path, {"items": items, "scores": list(records)})


def read(path: Path) -> Scores:
    content = whole.read_json(path, _REMEDY)
    items, records = content.get("items"), content.get("scores")
    if type(items) is not int or not isinstance(records, list) or not all(map(_is_record, records)):
        raise ValueError(f"{path} holds no scores: {_REMEDY}")
    return Scores(items, tuple(records))


def _is_record(record: Any) -> bool:
    if not isinstance(record, dict) or not isinstance(record.get("metric"), str):
        return False
    bounds = (record.get("low"), record.get("high"))
    return _is_number(record.get("value")) and all(bound is None or _is_number(bound) for bound in bounds)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
