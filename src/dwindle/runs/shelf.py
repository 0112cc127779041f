"""Recipe files: the shipped ones by name, and what a file says once its base, its start and the changes of the command
line are filled in. All plain mappings; what the keys mean is the business of `recipe`.
"""

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dwindle.folder.whole import read_text
from dwindle.metrics import paper
from dwindle.runs import schema

SHIPPED = Path(__file__).parent / "recipes"
LABELS = ("name", "about", "row", "scale", "published")
"""Keys that describe a recipe and change nothing in what it computes. They are not taken over from a base."""


@functools.cache
def shipped() -> dict[str, Path]:
    """The recipes that come with dwindle, by name."""
    files = sorted(SHIPPED.rglob("*.yaml"))
    return {file.relative_to(SHIPPED).with_suffix("").as_posix(): file for file in files}


def labels(name: str) -> dict[str, Any]:
    """What the file of a shipped recipe says of itself; nothing of its settings is read."""
    mapping = schema.load(find(name).read_text(encoding="utf-8"), name)
    found = {key: mapping.get(key) for key in LABELS} | {"name": name}
    return found | {"published": found["published"] or paper.figures(name)}


def mapping(name: str | Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """A shipped recipe or a file, with its base and start, changed by ``key=value`` (dotted keys, values in YAML).

    A change of data reaches the start too, if that has the same corpus: both must find it.
    """
    whole = _file(str(name), Path(), ())
    change(whole, changes)
    if isinstance(whole.get("start"), str):
        whole["start"] = _file(whole["start"], Path(), ())
    return whole


def change(mapping: dict[str, Any], changes: Sequence[str]) -> None:
    """Put each ``key=value`` into a mapping. A checkpoint, ``model.start``, takes the place of the recipe's start."""
    for text in changes:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r} is not a change of a recipe: write key=value, such as training.steps=100")
        loaded = schema.load(value, f"the value of {key}")
        if key == "model.start" and loaded:
            mapping.pop("start", None)
        for one in _alike(mapping) if key.startswith("data.") else [mapping]:
            _put(one, key, loaded)


def _alike(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A recipe, its start, the start of that, as long as they have one corpus."""
    corpus = _corpus(whole)
    one: Any = whole
    while isinstance(one, dict) and _corpus(one) == corpus:
        yield one
        one = one.get("start")


def _corpus(whole: dict[str, Any]) -> Any:
    data = whole.get("data")
    return data.get("corpus") if isinstance(data, dict) else None


def _file(name: str, folder: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    """The mapping of a recipe with its base and its start filled in."""
    path = find(name, folder)
    if path in seen:
        raise ValueError(f"{path} takes itself as a base or start, by way of {seen[-1]}: break the circle")
    mapping = schema.load(read_text(path), str(path))
    if not isinstance(mapping, dict):
        raise ValueError(f"{path} is not a recipe: write keys and values")
    own = path.relative_to(SHIPPED).with_suffix("").as_posix() if path.is_relative_to(SHIPPED) else path.stem
    return {"name": own} | _expanded(mapping, path, (*seen, path))


def _expanded(mapping: dict[str, Any], path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    start = mapping.get("start")
    if isinstance(start, str):
        mapping["start"] = _file(start, path.parent, seen)
    elif isinstance(start, dict):
        mapping["start"] = _expanded(start, path, seen)
    if "base" not in mapping:
        return mapping
    taken = _file(str(mapping.pop("base")), path.parent, seen)
    return _merged({key: value for key, value in taken.items() if key not in LABELS}, mapping)


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``over`` upon ``under``, mappings key by key; a start is another recipe, and replaced as one."""
    both = dict(under)
    for key, value in over.items():
        old = both.get(key)
        merge = isinstance(value, dict) and isinstance(old, dict) and key != "start"
        both[key] = _merged(old, value) if merge else value  # type: ignore[arg-type]
    return both


def find(name: str, folder: Path = Path()) -> Path:
    """The file of a shipped name, or of a path as seen from ``folder``."""
    if not name.endswith((".yaml", ".yml")):
        known = shipped()
        if name not in known:
            hint = schema.nearest(name, list(known)) or "type dwindle recipes for the list, or name a .yaml file"
            raise ValueError(f"no recipe is called {name!r}: {hint}")
        return known[name]
    path = (folder / name).expanduser()
    if not path.is_file():
        raise ValueError(f"there is no {path}: name a recipe's .yaml file, or one that 'dwindle recipes' lists")
    return path.resolve()


def _put(mapping: dict[str, Any], key: str, value: Any) -> None:
    """Set the value at a dotted key; what leads there is made where it is not."""
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
