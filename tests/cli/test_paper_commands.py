"""Every command of ``docs/PAPER.md``, as printed: parsed in full, and run where that takes a
moment.

Capital words (RUN, FILE, FOLDER) stand for something of the reader, and are replaced by something
of the test. A recipe is planned, not trained; what would fetch a corpus, measure time or serve
pages is parsed only.
"""

import re
import shlex

import pytest
import typer

from dwindle.cli.main import app
from dwindle.runs import recipe, schema
from tests import folders
from tests.test_paper import ROWS

COMMANDS = [(row[0], text) for row in ROWS for text in re.findall(r"`(dwindle [^`]+)`", row[4])]
PARSED_ONLY = (
    "bench",
    "study serve",
    "data stats cnndm",
    "data stats nyt50",
    "data stats image-paragraphs",
    "demo",
)
SAID = [
    (recipe_, key, value)
    for row in ROWS
    for recipe_ in re.findall(r"`dwindle run ([\w/-]+)", row[4])
    for key, value in re.findall(r"`([a-z_]+\.[a-z_]+)=(\w+)`", row[5])
]
"""What the page says of the settings of a recipe."""


@pytest.fixture
def given(tmp_path, monkeypatch):
    """Something of the test's for every capital word."""
    monkeypatch.chdir(tmp_path)
    made = {
        "RUN": folders.run(tmp_path / "run"),
        "FOLDER": tmp_path / "folder",
        "STUDY": tmp_path / "study",
    }
    for name in ("FILE", "A", "B"):
        made[name] = folders.plain(tmp_path / f"{name}.jsonl", seed=name)
    return {**made, "ENCODER": "bert-base-uncased", "CORPUS": "newsroom"}


def parsed(command, words, parent=None):
    """All of a command line: unknown verbs, options and missing arguments raise."""
    context = command.make_context(command.name or "dwindle", words, parent=parent)
    rest = [*getattr(context, "_protected_args", []), *context.args]
    if rest and hasattr(context.command, "resolve_command"):
        _, inner, rest = context.command.resolve_command(context, rest)
        parsed(inner, rest, context)


@pytest.mark.parametrize(
    ("item", "text"), COMMANDS, ids=[f"{item}-{n}" for n, (item, _) in enumerate(COMMANDS)]
)
def test_it_works_as_printed(item, text, given, run):
    words = [
        re.sub(r"\b(RUN|FILE|FOLDER|STUDY|ENCODER|CORPUS|A|B)\b", lambda m: str(given[m[1]]), word)
        for word in shlex.split(text)[1:]
    ]
    parsed(typer.main.get_command(app), list(words))
    line = " ".join(words)
    if line.startswith(PARSED_ONLY) or "mover:" in line:
        return
    if words[0] == "run":
        recipe.read(words[1], words[2:])
        return
    if words[:2] == ["study", "new"]:  # asks for the paper's 500 items
        for name in ("A", "B"):
            folders.plain(given[name], seed=name, count=500)
    code, _, err = run(*words)
    refuted = words[0] == "certify" and code == 1  # the paper's theorem, by its own settings
    assert code == 0 or refuted, err


@pytest.mark.parametrize(("name", "key", "value"), SAID)
def test_the_page_says_what_the_recipe_does(name, key, value):
    found = dict(schema.flat(schema.plain(recipe.read(name))))
    assert str(found[key]).lower() == value


def test_the_page_says_something_of_settings():
    assert ("cnndm/pg", "training.batch_size", "32") in SAID
