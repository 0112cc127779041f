"""``python -m tests.paper_settings``: writes the table of settings of ``docs/PAPER.md`` from the
recipes.

A row is a row of the paper's tables that can be run, a cell a part of its recipe. The table
ends the page; `test_paper` compares the two.
"""

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from dwindle.runs import recipe, shelf

PAGE = Path(__file__).parents[1] / "docs" / "PAPER.md"
HEAD = "| row | recipe | data | model | training | decoding |\n|---|---|---|---|---|---|\n"
ALWAYS = {
    "training": ("batch_size", "optimiser", "learning_rate", "schedule"),
    "decoding": ("beams", "length_norm"),
}
"""Settings of a part that are written also where they are the default."""


def printed() -> list[recipe.Recipe]:
    """The recipes of the paper's rows, by table; fair twins are not among them."""
    found = [recipe.read(name) for name in shelf.shipped() if "Table" in _row(name)]
    return sorted(found, key=lambda made: (made.row or "").split()[1].rstrip(":"))


def _row(name: str) -> str:
    row = shelf.labels(name)["row"] or ""
    return "" if "fair twin" in row else row


def table() -> str:
    return HEAD + "".join(f"| {' | '.join(_cells(made))} |\n" for made in printed())


def _cells(made: recipe.Recipe) -> list[str]:
    data, model, training, decoding = (
        ", ".join(f"{key}={_written(value)}" for key, value in shown(made, part).items())
        for part in ("data", "model", "training", "decoding")
    )
    if made.start:
        training = ", ".join(filter(None, [f"continues `{made.start.name}`", training]))
    return [made.row or "", f"`{made.name}`", data, model, training or "none", decoding or "none"]


def shown(made: recipe.Recipe, part: str) -> dict[str, Any]:
    """The settings of a part that are not the default, and those that are always written."""
    settings: Any = getattr(made, part)
    if settings is None or (part == "decoding" and made.model.kind == "lead-3"):
        return {}
    found = {field.name: getattr(settings, field.name) for field in fields(settings)}
    default = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(settings)
    }
    useless = {"batch_size"} if found.get("max_tokens") or part == "decoding" else set()
    return {
        name: value
        for name, value in found.items()
        if name not in useless and (name in ALWAYS.get(part, ()) or value != default[name])
    }


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def page() -> str:
    """The page with the table of today's recipes."""
    before, head, _ = PAGE.read_text(encoding="utf-8").partition(HEAD)
    if not head:
        raise ValueError(f"{PAGE} has no table that begins with {HEAD.splitlines()[0]}")
    return before + table()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
