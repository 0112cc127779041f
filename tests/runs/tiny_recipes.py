"""Changes that make recipes train in a second: any recipe, and those of newsroom."""

from collections.abc import Mapping
from typing import Any

from dwindle.runs import shelf

FEW = ["data.size={train: 8, dev: 1, test: 1}"]
SMALL = [
    "model.size=tiny",
    "model.vocabulary=300",
    "model.start=null",
    "model.layers=null",
    "model.source_length=24",
    "model.target_length=12",
    "decoding.min_length=1",
    "decoding.max_length=4",
]
SHORT = [
    *("training.steps=2", "training.epochs=null", "training.batch_size=2", "training.accumulate=1"),
    # of few short texts, on a CPU
    *("training.max_tokens=null", "training.clean_ratio=0", "training.fp16=false"),
]
TINY = [
    "data.size={train: 24, dev: 4, test: 6}",
    "training.steps=2",
    "training.batch_size=4",
    "decoding.max_length=12",
]
NEWS = [
    *TINY,
    "model.size=tiny",
    "model.vocabulary=300",
    "model.source_length=40",
    "decoding.min_length=1",
]


def tiny(name: str) -> list[str]:
    """The changes that make a newsroom recipe tiny."""
    return [*NEWS, *(f"start.{change}" for change in NEWS if shelf.mapping(name).get("start"))]


def shrunk(whole: Mapping[str, Any]) -> list[str]:
    """The changes that make any recipe tiny, and all that it starts from."""
    changes = [*SMALL, *(SHORT if whole.get("training") else [])]
    if whole["model"]["kind"] == "top-down":
        changes.append("model.source_length=100")  # regions are not cut
    if whole.get("start"):
        changes += [f"start.{change}" for change in shrunk(whole["start"])]
    return changes
