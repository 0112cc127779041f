"""Recipe files: the shipped ones by name, and what a file says once its base, its start and the
changes of the command line are filled in. All plain mappings; `recipe` knows what the keys mean.

A file is one recipe, or a *task*: settings that several recipes share and, below ``arms``, what
each of them changes. The arm ``dim`` of ``news.yaml`` is called ``news/dim``; within its file,
``dim``.
"""

import copy
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dwindle.metrics import paper
from dwindle.runfiles.whole import read_text
from dwindle.runs import schema

SHIPPED = Path(__file__).parent / "recipes"
LABELS = ("name", "about", "row", "scale", "published")
"""Keys that describe a recipe and change no computation. They are not taken from a base."""
_WRITTEN = ("base", *LABELS, "start", "data", "model", "training", "decoding")
"""The order in which the keys of a recipe are written; others follow."""


class Entry(NamedTuple):
    """The place of a recipe: a file, or an arm in it."""

    file: Path
    arm: str | None = None
    """Its name below ``arms``; None if the file is one recipe."""

    @property
    def name(self) -> str:
        """The recipe's name: ``news/dim`` if shipped, ``mine/dim`` for an arm of ``mine.yaml``."""
        shipped = self.file.is_relative_to(SHIPPED)
        task = _task(self.file) if shipped else self.file.stem
        return task if self.arm is None else f"{task}/{self.arm}"

    def __str__(self) -> str:
        """A name by which `find` finds it from anywhere."""
        if self.file.is_relative_to(SHIPPED):
            return self.name
        return str(self.file) if self.arm is None else f"{self.file}/{self.arm}"


@functools.cache
def tasks() -> dict[str, Path]:
    """The files that come with dwindle, by the name of their task."""
    return {_task(file): file for file in sorted(SHIPPED.rglob("*.yaml"))}


@functools.cache
def shipped() -> dict[str, Entry]:
    """The recipes that come with dwindle, by name."""
    return {place.name: place for file in tasks().values() for place in inside(file)}


def inside(file: Path) -> list[Entry]:
    """Every recipe of a file: its arms, or itself."""
    return [Entry(file, arm) for arm in arms(file)] or [Entry(file)]


def arms(file: Path) -> dict[str, dict[str, Any]]:
    """The arms of a task, each with its own lines; empty if the file is one recipe."""
    found = _load(file).get("arms", {})
    if not isinstance(found, dict) or ("arms" in _load(file) and not found):
        raise ValueError(f"{file} has no recipes below arms: write a name and its settings")
    for arm, own in found.items():
        if not (isinstance(arm, str) and re.fullmatch(r"[^/\s]+", arm)):
            raise ValueError(f"{file} has an arm called {arm!r}: choose a word without a slash")
        if not isinstance(own, dict | None) or "arms" in (own or {}):
            raise ValueError(f"{file}: the arm {arm} is not a recipe: write keys and values")
    return {arm: own or {} for arm, own in found.items()}


def shared(file: Path) -> dict[str, Any]:
    """The settings of a task that its arms share."""
    return {key: value for key, value in _load(file).items() if key not in ("about", "arms")}


def about(task: str) -> str:
    """The line that describes a shipped task."""
    return str(_load(tasks()[task]).get("about", ""))


def labels(name: str) -> dict[str, Any]:
    """The labels of a shipped recipe; none of its settings is read."""
    mapping = _own(find(name))
    found = {key: mapping.get(key) for key in LABELS} | {"name": name}
    return found | {"published": found["published"] or paper.figures(name)}


def text(name: str) -> str:
    """A recipe as a file of its own that `mapping` reads: the comments on its task and on itself,
    then its lines.

    An arm with a ``base`` names it in full; an arm without one gets the lines that its task shares.
    """
    place = find(name, several=True)
    written = read_text(place.file)
    if place.arm is None:
        return written
    own = _named(_own(place), place)
    ordered = {key: own[key] for key in _WRITTEN if key in own}
    return "".join(_comments(written, place.arm)) + schema.dump(ordered | own)


def mapping(name: str | Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """A shipped recipe or a file, with its base and start, changed by ``key=value`` (dotted keys,
    values in YAML).

    A change of data reaches the start too, if that has the same corpus: both must find it.
    """
    whole = _recipe(find(str(name)))
    change(whole, changes)
    if isinstance(whole.get("start"), str):
        whole["start"] = _recipe(find(whole["start"]))
    return whole


def change(mapping: dict[str, Any], changes: Sequence[str]) -> None:
    """Put each ``key=value`` into a mapping. A checkpoint, ``model.start``, takes the place of the
    recipe's start."""
    for text in changes:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(
                f"{text!r} is not a change of a recipe: write key=value, such as training.steps=100"
            )
        loaded = schema.load(value, f"the value of {key}")
        if key == "model.start" and loaded:
            mapping.pop("start", None)
        if key.startswith("metrics.") and isinstance(mapping.get("metrics"), list):
            _measure(mapping["metrics"], key.removeprefix("metrics."), loaded)
            continue
        for one in _alike(mapping) if key.startswith("data.") else [mapping]:
            _put(one, key, loaded)


def find(name: str, beside: Entry | None = None, several: bool = False) -> Entry:
    """The place of a recipe: an arm of its own file, a shipped name, a file or ``FILE.yaml/ARM``.

    A task is refused, because it is more than one recipe, unless ``several`` are welcome.
    """
    if beside and name in arms(beside.file):
        return Entry(beside.file, name)
    path = re.fullmatch(r"(.+\.ya?ml)(?:/([^/]+))?", name)
    place = _in_file(path[1], path[2], beside) if path else _on_shelf(name)
    if place.arm is None and not several and (known := arms(place.file)):
        first = Entry(place.file, next(iter(known)))
        raise ValueError(
            f"{name} is a task of {len(known)} recipes: name one of them, such as {first}"
        )
    return place


def _in_file(name: str, arm: str | None, beside: Entry | None) -> Entry:
    path = ((beside.file.parent if beside else Path()) / name).expanduser()
    if not path.is_file():
        raise ValueError(
            f"there is no {path}: name a recipe's .yaml file, or one that 'dwindle recipes' lists"
        )
    place = Entry(path.resolve(), arm)
    if arm is not None and arm not in (known := arms(place.file)):
        hint = schema.nearest(arm, list(known)) or f"choose from {', '.join(known) or 'none'}"
        raise ValueError(f"{path} has no arm called {arm!r}: {hint}")
    return place


def _on_shelf(name: str) -> Entry:
    if name in tasks():
        return Entry(tasks()[name])
    if name not in (known := shipped()):
        hint = (
            schema.nearest(name, list(known))
            or "type dwindle recipes for the list, or name a .yaml file"
        )
        raise ValueError(f"no recipe is called {name!r}: {hint}")
    return known[name]


def _task(file: Path) -> str:
    return file.relative_to(SHIPPED).with_suffix("").as_posix()


def _load(file: Path) -> dict[str, Any]:
    mapping = copy.deepcopy(_parsed(read_text(file), str(file)))
    if not isinstance(mapping, dict):
        raise ValueError(f"{file} is not a recipe: write keys and values")
    return mapping


@functools.lru_cache(64)
def _parsed(text: str, where: str) -> Any:
    return schema.load(text, where)


def _own(place: Entry) -> dict[str, Any]:
    """The lines of a recipe without its base; those of an arm are merged into what its task shares.

    An arm that names a ``base`` stands on that instead, and takes only the task's ``scale``.
    """
    if place.arm is None:
        return _load(place.file)
    own, under = arms(place.file)[place.arm], shared(place.file)
    return _merged({key: under[key] for key in under if "base" not in own or key == "scale"}, own)


def _recipe(place: Entry, seen: tuple[Entry, ...] = ()) -> dict[str, Any]:
    """The mapping of a recipe with its base and its start filled in."""
    return _started({"name": place.name} | _taken(place, seen), (*seen, place))


def _started(mapping: dict[str, Any], seen: tuple[Entry, ...]) -> dict[str, Any]:
    """The start comes last: a base's own is never read where another takes its place."""
    start = mapping.get("start")
    if isinstance(start, Entry):
        mapping["start"] = _recipe(start, seen)
    elif isinstance(start, dict):
        mapping["start"] = _started(start, seen)
    return mapping


def _taken(place: Entry, seen: tuple[Entry, ...]) -> dict[str, Any]:
    if place in seen:
        raise ValueError(
            f"{place} takes itself as a base or start, by way of {seen[-1]}: break the circle"
        )
    return _based(_own(place), place, (*seen, place))


def _based(mapping: dict[str, Any], place: Entry, seen: tuple[Entry, ...]) -> dict[str, Any]:
    """A mapping of a file merged into that of its base. Its start is found, not read."""
    start = mapping.get("start")
    if isinstance(start, str):
        mapping["start"] = find(start, place)
    elif isinstance(start, dict):
        mapping["start"] = _based(start, place, seen)
    if "base" not in mapping:
        return mapping
    under = _taken(find(str(mapping.pop("base")), place), seen)
    return _merged({key: value for key, value in under.items() if key not in LABELS}, mapping)


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``over`` merged into ``under``, mappings key by key; a start is replaced as a whole."""
    both = dict(under)
    for key, value in over.items():
        old = both.get(key)
        merge = isinstance(value, dict) and isinstance(old, dict) and key != "start"
        both[key] = _merged(old, value) if merge else value  # type: ignore[arg-type]
    return both


def _named(mapping: dict[str, Any], place: Entry) -> dict[str, Any]:
    """A mapping of a file whose base and start are named so that any file finds them."""
    named = dict(mapping)
    for key in ("base", "start"):
        if isinstance(mapping.get(key), str):
            named[key] = str(find(mapping[key], place))
        elif isinstance(mapping.get(key), dict):
            named[key] = _named(mapping[key], place)
    return named


def _comments(text: str, arm: str) -> Iterator[str]:
    """The comment lines on top of a task, and those directly below an arm's name."""
    lines = text.splitlines(keepends=True)
    document = dict(_pairs(yaml.compose(text, yaml.SafeLoader)))
    line = next(key.start_mark.line for key, _ in document["arms"].value if key.value == arm)
    for first in (0, line + 1):
        for comment in lines[first:]:
            if not comment.lstrip().startswith("#"):
                break
            yield comment.lstrip()


def _pairs(node: Any) -> Iterator[tuple[str, Any]]:
    return ((key.value, value) for key, value in node.value)


def _alike(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A recipe, its start, the start of its start and so on, as long as they have the same
    corpus."""
    corpus = _corpus(whole)
    one: Any = whole
    while isinstance(one, dict) and _corpus(one) == corpus:
        yield one
        one = one.get("start")


def _corpus(whole: dict[str, Any]) -> Any:
    data = whole.get("data")
    return data.get("corpus") if isinstance(data, dict) else None


def _measure(metrics: list[Any], name: str, option: Any) -> None:
    """Give the metric ``name`` this option: ``metrics.mover=FOLDER`` names its encoder. A missing
    metric is added."""
    place = next((n for n, known in enumerate(metrics) if known == name), len(metrics))
    metrics[place : place + 1] = [f"{name}:{option}"]


def _put(mapping: dict[str, Any], key: str, value: Any) -> None:
    """Set the value at a dotted key; mappings that are missing on the way are made."""
    head, dot, rest = key.partition(".")
    if not dot:
        mapping[head] = value
        return
    inner = mapping.get(head)
    if inner is None:
        inner = mapping[head] = {}
    if not isinstance(inner, dict):
        raise ValueError(f"{key} cannot be set: {head} is {inner!r}, which has no keys")
    _put(inner, rest, value)
