"""A recipe: data, model, training, decoding and metrics of one system, read strictly from YAML.

A recipe may take over all of another (``base: cnndm/pg``) and change some keys, and may continue another's model
(``start: cnndm/pg``), whose whole recipe then stands inside it: a resolved recipe needs no other file. Knows how
settings are written down, not what the rooms make of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dwindle.data.settings import DataSettings
from dwindle.generation.settings import DecodingSettings
from dwindle.models.build import ModelSettings
from dwindle.runs import schema, shelf
from dwindle.runs.shelf import LABELS
from dwindle.training.settings import TrainingSettings


@dataclass(frozen=True)
class Recipe:
    """One system, from its data to its scores."""

    data: DataSettings
    """What is read."""
    model: ModelSettings
    """What is built, or where its weights come from."""
    decoding: DecodingSettings
    """How the test split is written."""
    metrics: list[str]
    """What is measured, by the names of ``dwindle score``."""
    training: TrainingSettings | None = None
    """How it is trained; null for a model that is used as it is."""
    start: "Recipe | None" = None
    """The recipe whose trained model this one continues."""
    seed: int = 1
    """Of fresh weights, order and dropout."""
    name: str = ""
    """Its file's name; a shipped one is called by it."""
    about: str = ""
    """One line."""
    row: str | None = None
    """The row of the paper's tables that it is."""
    scale: str | None = None
    """What it takes to run."""
    published: dict[str, float] = field(default_factory=dict)
    """The paper's figures for that row, by the names of metrics."""

    def __post_init__(self) -> None:
        if self.start and self.model.start:
            raise ValueError("start names a recipe and model.start a checkpoint: keep one of them")
        fresh = not (self.start or self.model.start or self.model.kind == "lead-3")
        if fresh and self.training is None:
            raise ValueError("nothing was ever trained here: give it training, a start, or a model.start")


def read(name: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """The recipe of a shipped name or a file, with ``key=value`` changes."""
    try:
        return schema.parse(Recipe, shelf.mapping(name, changes))
    except ValueError as error:
        raise ValueError(str(error) if str(name) in str(error) else f"{name}: {error}") from None


def text(recipe: Recipe) -> str:
    """A recipe with every setting, as a file that `read` takes."""
    return schema.dump(schema.plain(recipe))


def differences(one: Recipe, two: Recipe) -> dict[str, tuple[Any, Any]]:
    """The settings in which two recipes differ, by dotted key; labels do not count."""
    a, b = dict(_flat(schema.plain(one))), dict(_flat(schema.plain(two)))
    keys = [key for key in {**a, **b} if key.rpartition(".")[2] not in LABELS and "published." not in key]
    return {key: (a.get(key), b.get(key)) for key in keys if a.get(key) != b.get(key)}


def _flat(mapping: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value
