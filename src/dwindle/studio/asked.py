"""Reads and checks the JSON that the page sends; every mistake is one sentence. Knows no HTTP."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dwindle.core.notation import rule as parse
from dwindle.generation.interactive import Author
from dwindle.generation.settings import DecodingSettings
from dwindle.studio.desk import Answer

LONGEST = 100_000
"""Longest text in characters: more than any model reads."""
LONGEST_RULE = 200
MOST_ANSWERS = 4
WHOLE = ("beams", "max_length", "min_length", "block_ngrams")
MOST = {"beams": 64, "max_length": 10_000}
"""Upper bounds: a request must not take all memory, or keep the studio busy for a day."""
FRACTIONS = ("repetition_penalty",)
"""The decoding settings that the page has fields for."""


def read(
    asked: Any, authors: Sequence[Author], names: Sequence[str]
) -> tuple[str, list[Answer], DecodingSettings]:
    """Read a request of the page.

    Args:
        asked: the JSON that the page sent.
        authors: the models of this studio.
        names: of the models, as the page shows them; empty for one that stands alone.

    Returns:
        The text, the answers to write, and how to decode them.
    """
    if not isinstance(asked, dict):
        raise ValueError("this request does not come from the studio's page: load the page again")
    text = _text(asked.get("text"))
    rows = asked.get("answers")
    if not isinstance(rows, list) or not 1 <= len(rows) <= MOST_ANSWERS:
        raise ValueError(f"ask for 1 to {MOST_ANSWERS} outputs")
    answers = [_answer(row, authors, names) for row in rows]
    _told_apart(answers)
    return text, answers, _settings(asked.get("decoding"), answers[0].author.usual)


def _text(given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ValueError("there is no text yet: paste one, or take the sample")
    if len(given) > LONGEST:
        raise ValueError(f"the text has {len(given):,} characters: paste at most {LONGEST:,}")
    return given.replace("\r\n", "\n").strip("\n")


def _answer(row: Any, authors: Sequence[Author], names: Sequence[str]) -> Answer:
    known = isinstance(row, dict)
    number, rule, layers = (
        (row.get(key) for key in ("model", "rule", "layers")) if known else (None, None, None)
    )
    if (
        not isinstance(number, int)
        or not 0 <= number < len(authors)
        or not isinstance(rule, str | None)
    ):
        raise ValueError("one of the outputs names no model of this studio: load the page again")
    author, rule = authors[number], (rule or "").strip() or None
    if not isinstance(layers, int | None):
        raise ValueError(f"layers are a number, not {layers!r}")
    if layers is not None and author.layers is not None and not 1 <= layers <= author.layers:
        raise ValueError(
            f"a rule can be on the last 1 to {author.layers} layers of this model: give one of "
            "these"
        )
    if rule is not None and len(rule) > LONGEST_RULE:
        raise ValueError(f"the rule has {len(rule):,} characters: give at most {LONGEST_RULE}")
    if rule is not None:
        parse(rule)
    return Answer(_name(names[number], author, rule, layers), author, rule, layers)


def _name(name: str, author: Author, rule: str | None, layers: int | None) -> str:
    """The name of a column: the model, if there are several, and its rule."""
    where = f", last {layers} layers" if layers and layers > 1 else ", last layer" if layers else ""
    return f"{name} {rule or author.rule or 'plain'}{where}".strip()


def _told_apart(answers: list[Answer]) -> None:
    """If the same rule is requested twice, its columns are numbered."""
    for k, answer in enumerate(answers):
        if any(answer.name == other.name for other in answers[:k]):
            answer.name += f" ({k + 1})"


def _settings(given: Any, usual: DecodingSettings) -> DecodingSettings:
    if not isinstance(given, dict) or not given.keys() <= {*WHOLE, *FRACTIONS}:
        raise ValueError(
            "the decoding has settings that this page does not know: load the page again"
        )
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int if name in WHOLE else int | float):
            raise ValueError(f"decoding: {name} is {value!r}: give a number")
        if value > MOST.get(name, math.inf):
            raise ValueError(f"decoding: {name} is {value}: give at most {MOST[name]:,}")
    changed = replace(usual, **given)
    return (
        changed
        if changed.beams > 1
        else replace(changed, coverage_penalty="none", beta=0.0, stepwise=False)
    )
