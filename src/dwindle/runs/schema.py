"""Strict reading: plain values (from YAML) -> frozen dataclasses, by fields and types alone.

An unknown key fails with the nearest known one, a wrong type with the key, the value and what was
expected. Any dataclass of plain types will do, so a new setting in a room needs no line here. Knows
no setting.
"""

import difflib
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

T = TypeVar("T")
_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML of plain values in which a key stands once, and 1e-4 is a number as in YAML 1.2."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise ValueError(f"has the key {twice[0]!r} twice: keep one of them")
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


_Loader.yaml_implicit_resolvers = {
    k: list(v) for k, v in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_FLOAT = r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(_FLOAT), list("-+.0123456789"))


def load(text: str, where: str) -> Any:
    """The plain value that a YAML text holds."""
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f", line {mark.line + 1}" if mark else ""
        raise ValueError(
            f"{where}{at} is not YAML ({getattr(error, 'problem', None) or error})"
        ) from None
    except ValueError as error:
        raise ValueError(f"{where} {error}") from None


def dump(value: Any) -> str:
    """A plain value as YAML, keys in their order."""
    text: str = yaml.dump(
        value, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False, width=100
    )
    return text


def plain(settings: Any) -> dict[str, Any]:
    """A dataclass as plain values: what `parse` reads back to an equal one."""
    return {key: _plain(value) for key, value in asdict(settings).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def flat(mapping: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings by their dotted keys."""
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def parse(kind: type[T], value: Any, path: str = "") -> T:
    """Build the dataclass ``kind`` from a mapping at ``path``: ``training.`` or nothing."""
    if not isinstance(value, Mapping):
        raise ValueError(
            f"{path.rstrip('.') or 'a recipe'} is {value!r}: write keys and values there"
        )
    hints = get_type_hints(kind)
    known = [field.name for field in fields(kind) if field.init]  # type: ignore[arg-type]
    for key in value:
        if key not in known:
            hint = nearest(str(key), known, path) or f"choose from {', '.join(known)}"
            raise ValueError(f"no key is called {path}{key}: {hint}")
    for field in fields(kind):  # type: ignore[arg-type]
        if (
            field.name not in value
            and field.default is MISSING
            and field.default_factory is MISSING
        ):
            raise ValueError(f"{path}{field.name} is missing: write {_expected(hints[field.name])}")
    read = {key: _read(hints[key], value[key], f"{path}{key}") for key in value}
    try:
        return kind(**read)
    except ValueError as error:
        room = path.rstrip(".")
        raise ValueError(
            str(error) if str(error).startswith(room) else f"{room}: {error}"
        ) from None


def nearest(key: str, known: Sequence[str], path: str = "") -> str:
    """``did you mean KEY?``, or nothing if no known key is near."""
    close = difflib.get_close_matches(key, known, 1, 0.5)
    return f"did you mean {path}{close[0]}?" if close else ""


def _read(hint: Any, value: Any, path: str) -> Any:
    """``value`` as a ``hint``; the first fitting member of a union."""
    if is_dataclass(hint) and isinstance(value, Mapping):
        return parse(hint, value, f"{path}.")  # type: ignore[arg-type]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        member = next((a for a in arguments if _fits(a, value)), None)
        if member is not None:
            return _read(member, value, path)
    if origin in (list, tuple, Sequence) and isinstance(value, list):
        return (list if origin is list else tuple)(
            _read(arguments[0], v, f"{path}[{i}]") for i, v in enumerate(value)
        )
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return {
            _read(arguments[0], k, path): _read(arguments[1], v, f"{path}.{k}")
            for k, v in value.items()
        }
    if origin is Literal and any(value == a and type(value) is type(a) for a in arguments):
        return value
    if hint is Any or type(value) is hint:
        return value
    if hint is float and type(value) is int:
        return float(value)
    raise ValueError(f"{path} is {value!r}: write {_expected(hint)}")


def _fits(hint: Any, value: Any) -> bool:
    """True if ``value`` has the shape of a ``hint``, a member of a union."""
    origin = get_origin(hint) or hint
    if isinstance(value, Mapping):
        return is_dataclass(hint) or origin in (dict, Mapping)
    if isinstance(value, list):
        return origin in (list, tuple, Sequence)
    if origin is Literal:
        return value in get_args(hint)
    return type(value) is hint or (hint is float and type(value) is int)


def _expected(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_expected, arguments))
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin in (list, tuple, Sequence):
        return "a list, each " + _expected(arguments[0])
    if origin in (dict, Mapping) or is_dataclass(hint):
        return "keys and values"
    return _NAMES.get(hint, str(hint))
