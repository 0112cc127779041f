"""A recipe: data, model, training, decoding and metrics of one system, read strictly from YAML.

A recipe may take over all of another (``base: cnndm/pg``) and change some keys, and may continue
another's model (``start: cnndm/pg``), whose whole recipe then stands inside it: a resolved recipe
needs no other file. Knows how settings are written down, not what the rooms make of them.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dwindle.data.example import Split
from dwindle.data.load import load, on_hub
from dwindle.data.settings import DataSettings
from dwindle.generation.settings import DecodingSettings
from dwindle.metrics import paper
from dwindle.models.settings import ModelSettings
from dwindle.runs import schema, shelf
from dwindle.settings.purpose import ASKED, LABEL, Purpose, purpose
from dwindle.system.hub import absence
from dwindle.training.settings import TrainingSettings

ROOT = Path("runs")
"""Home of runs that were given no folder: each lies under its recipe's name, so a start is shared
by all who need it."""


@dataclass(frozen=True)
class Grid:
    """Several values for some settings; dev chooses a combination: see `dwindle.runs.grid`."""

    by: str
    """The metric that chooses."""
    values: dict[str, list[Any]]
    """The values of each setting, by dotted key; all combinations are tried."""

    def __post_init__(self) -> None:
        if not self.values or not all(self.values.values()):
            raise ValueError(
                "grid.values: give each setting one value or more, as in {model.layers: [1, 2]}"
            )
        for key in self.values:
            if key.split(".")[0] not in ("model", "training", "decoding"):
                raise ValueError(
                    f"grid.values has {key}: a grid is over settings of model, training and "
                    "decoding"
                )


@dataclass(frozen=True)
class Recipe:
    """One system, from its data to its scores."""

    data: DataSettings
    """The corpus."""
    model: ModelSettings
    """The model that is built, or whose weights are loaded."""
    decoding: DecodingSettings
    """The search for outputs."""
    metrics: list[str] = field(metadata=ASKED)
    """Metrics to score the outputs with, by the names of ``dwindle score``."""
    training: TrainingSettings | None = None
    """The training of the model; null for a model that is used as it is."""
    start: "Recipe | None" = None
    """The recipe whose trained model this one continues."""
    split: Split = field(default="test", metadata=ASKED)
    """Split that is decoded and scored (default ``test``)."""
    grid: Grid | None = None
    """Settings that are chosen on dev."""
    seed: int = field(default=1, metadata=ASKED)
    """Seed of new weights, of the order of examples and of dropout."""
    name: str = field(default="", metadata=LABEL)
    """Name of its file; a shipped recipe is called by it."""
    about: str = field(default="", metadata=LABEL)
    """Description in one line."""
    row: str | None = field(default=None, metadata=LABEL)
    """Row of the paper's tables that it repeats."""
    scale: str | None = field(default=None, metadata=LABEL)
    """Machine and time that it needs."""
    published: dict[str, float] = field(default_factory=dict, metadata=LABEL)
    """Figures to show beside its own, by metric; for a row of the paper, the paper's."""

    def __post_init__(self) -> None:
        if self.start and self.model.start:
            raise ValueError("start names a recipe and model.start a checkpoint: keep one of them")
        fresh = not (self.start or self.model.start or self.model.kind == "lead-3")
        if fresh and self.training is None:
            raise ValueError(
                "nothing was ever trained here: give it training, a start, or a model.start"
            )


def read(name: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """The recipe of a shipped name or a file, with ``key=value`` changes."""
    try:
        found = schema.parse(Recipe, shelf.mapping(name, changes))
    except ValueError as error:
        raise ValueError(str(error) if str(name) in str(error) else f"{name}: {error}") from None
    return replace(found, published=found.published or paper.figures(found.name))


def check_names(recipe: Recipe) -> None:
    """Refuse a model or a data set that neither the hub nor its cache has, before libraries are
    imported that take long."""
    start = recipe.model.start
    if start and not Path(start).exists() and (why := absence(start, "model")):
        raise ValueError(f"there is no folder {start}, and {why}")
    if recipe.start:
        check_names(recipe.start)
    elif (name := on_hub(recipe.data)) and absence(name, "data set"):
        load(recipe.data, recipe.split)  # from the cache


def text(recipe: Recipe) -> str:
    """A recipe with every setting, as a file that `read` takes."""
    return schema.dump(schema.plain(recipe))


@dataclass(frozen=True)
class Change:
    """One setting in which two recipes differ."""

    key: str
    """Dotted: ``training.steps``, ``start.seed``."""
    before: Any
    after: Any
    purpose: Purpose
    """The setting's purpose, see ``dwindle.settings.purpose``. Never a label."""

    def __str__(self) -> str:
        return f"{self.key}: {_shown(self.before)} → {_shown(self.after)}"


def changes(one: "Recipe | Mapping[str, Any]", two: "Recipe | Mapping[str, Any]") -> list[Change]:
    """The settings in which two recipes differ, without labels. Either may be plain values, as a
    run folder has them."""
    a, b = (dict(schema.flat(schema.plain(r) if isinstance(r, Recipe) else r)) for r in (one, two))
    found = [
        Change(key, a.get(key), b.get(key), purpose_of(key))
        for key in {**a, **b}
        if a.get(key) != b.get(key)
    ]
    return [change for change in found if change.purpose != "label"]


def purpose_of(key: str) -> Purpose:
    """The purpose of the setting with this dotted key."""
    own = key
    while own.startswith("start."):
        own = own.removeprefix("start.")
    if own == "seed" and own != key:
        return "setting"  # a start with another seed is another start
    known = _purposes()
    return next((known[name] for name in (own, *own.split(".")[:1]) if name in known), "setting")


@functools.cache
def _purposes() -> dict[str, Purpose]:
    """The purpose of every setting, by its dotted key within a recipe."""
    rooms = {"model": ModelSettings, "training": TrainingSettings, "decoding": DecodingSettings}
    found = {one.name: purpose(one) for one in fields(Recipe) if one.name not in rooms}
    for room, settings in rooms.items():
        found |= {f"{room}.{one.name}": purpose(one) for one in fields(settings)}
    return found


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
