"""The purpose of a setting of a recipe. Each field of a settings class names it in its metadata;
without one, the field is a ``setting``.

attention  how a step attends: the rule, and what takes its place in other methods
search     what the search does against repetition or for coverage
setting    the surroundings of a method: data, budget, size, all that two arms must have alike
asked      how often and by what a system is measured: nothing of what it does
label      what a recipe says of itself
"""

from dataclasses import Field
from typing import Any, Literal

Purpose = Literal["attention", "search", "setting", "asked", "label"]

ATTENTION: dict[str, Purpose] = {"purpose": "attention"}
SEARCH: dict[str, Purpose] = {"purpose": "search"}
ASKED: dict[str, Purpose] = {"purpose": "asked"}
LABEL: dict[str, Purpose] = {"purpose": "label"}


def purpose(one: Field[Any]) -> Purpose:
    """The purpose of a field."""
    found: Purpose = one.metadata.get("purpose", "setting")
    return found
