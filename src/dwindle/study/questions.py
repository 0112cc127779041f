"""The questions to raters, and the noun for what they compare, from a small JSON file.

``sets/`` holds the sets that are shipped: ``summary``, the paper's three questions in words of our
own, and ``translation``. A file of the owner's has the same shape. Knows nothing of pages,
databases or statistics.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from dwindle.runfiles import whole

CHOICES, VERDICTS = ("left", "tie", "right"), ("yes", "no")
MOST = 6  # questions: a rater's form has at most 20 fields
LONGEST = 2000  # characters of a wording
_TAKEN = {
    "item",
    "check",
    "rater",
    "left",
    "right",
    "comment",
    "seconds",
    "first",
    "last",
    "changes",
    "counted",
}
_TAKEN |= {"proof", "swapped"}


@dataclass(frozen=True)
class Question:
    """``name`` is a ballot's field, ``asked`` stands above the answers, ``meaning`` in the
    guidelines, ``short`` in a table."""

    name: str
    title: str
    asked: str
    meaning: str
    short: str = ""


@dataclass(frozen=True)
class Questions:
    """The questions of a study: on both texts (left, tie, right), and on each (yes, no)."""

    noun: str
    plural: str
    compared: tuple[Question, ...]
    each: tuple[Question, ...] = ()

    @property
    def all(self) -> tuple[Question, ...]:
        return (*self.compared, *self.each)

    @property
    def answers(self) -> dict[str, tuple[str, ...]]:
        """The fields of a ballot, and what each may hold."""
        fields = {question.name: CHOICES for question in self.compared}
        return fields | {
            f"{q.name}_{side}": VERDICTS for q in self.each for side in ("left", "right")
        }


def load(name: str | Path) -> Questions:
    """A set that is shipped, by its name, or the set in a JSON file."""
    shipped = resources.files(__package__).joinpath("sets", f"{name}.json")
    if str(name).isalpha() and shipped.is_file():
        return parse(shipped.read_text("utf-8"), str(name))
    path = Path(name)
    if not path.is_file():
        raise ValueError(
            f"{name} is not a set of questions: name summary, translation or a JSON file as in "
            "docs/STUDY.md"
        )
    return parse(whole.read_text(path), str(name))


def parse(text: str, where: str) -> Questions:
    """Read a set; refuse what a page, a form or a column could not hold."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"{where} is not JSON ({error}): see the example in docs/STUDY.md"
        ) from None
    if not isinstance(given, dict) or not set(given) <= {"noun", "plural", "compared", "each"}:
        raise ValueError(
            f"{where} is not a set of questions: give noun, compared, and if you like plural and "
            "each"
        )
    noun = _text(given, "noun", where)
    plural = _text(given, "plural", where, f"{noun}s")
    compared, each = (_list(given.get(key, []), key, where) for key in ("compared", "each"))
    found = Questions(noun, plural, compared, each)
    _refuse(found, where)
    return found


def dump(questions: Questions) -> str:
    return json.dumps(asdict(questions), ensure_ascii=False)


def _list(given: Any, key: str, where: str) -> tuple[Question, ...]:
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise ValueError(
            f'{where}: "{key}" is not a list of questions: write one object a question'
        )
    known = {"name", "title", "asked", "meaning", "short"}
    if odd := {field for one in given for field in one} - known:
        raise ValueError(
            f"{where}: {sorted(odd)[0]!r} is not known: give name, title, asked, meaning and "
            "perhaps short"
        )
    return tuple(_question(one, f"{where}, {key} {number}") for number, one in enumerate(given, 1))


def _question(given: Mapping[str, Any], where: str) -> Question:
    name, title, asked, meaning = (
        _text(given, key, where) for key in ("name", "title", "asked", "meaning")
    )
    if not re.fullmatch("[a-z][a-z_]{0,30}", name):
        raise ValueError(
            f"{where}: the name {name!r} cannot be a column: use at most 31 letters a to z and _"
        )
    return Question(name, title, asked, meaning, _text(given, "short", where, title))


def _text(given: Mapping[str, Any], key: str, where: str, default: str = "") -> str:
    text = given.get(key) or default
    if (
        not isinstance(text, str)
        or not text.strip()
        or len(text) > LONGEST
        or re.search("[\ud800-\udfff]", text)
    ):
        raise ValueError(
            f"{where}: {key} is missing or too long: write it as a text of at most {LONGEST} "
            "characters"
        )
    return text


def _refuse(found: Questions, where: str) -> None:
    if not found.compared:
        raise ValueError(f"{where} compares nothing: give at least one question under compared")
    if len(found.all) > MOST:
        raise ValueError(f"{where} has {len(found.all)} questions: a rater is asked at most {MOST}")
    names = [question.name for question in found.all]
    fields = [*found.answers, *(f"{q.name}_winner" for q in found.compared)]
    clash = {
        name for some in (names, fields) for name in some if some.count(name) > 1 or name in _TAKEN
    }
    if clash:
        raise ValueError(
            f"{where}: the name {sorted(clash)[0]!r} is taken: give each question a name of its own"
        )


SUMMARY = load("summary")
