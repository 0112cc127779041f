"""``docs/PAPER.md``: all items of the paper, and nothing that is not there."""

import re
from pathlib import Path

import pytest

from dwindle.runs import shelf
from tests import paper_settings

HERE = Path(__file__).parents[1]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (HERE / "docs" / "PAPER.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| [MSE]\d+ \|", line)
]


def test_every_item_is_there_once():
    wanted = (
        [f"M{i}" for i in range(1, 12)]
        + [f"S{i}" for i in range(1, 19)]
        + [f"E{i}" for i in range(1, 20)]
    )
    assert [row[0] for row in ROWS] == wanted


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_it_names_is_there(row):
    _, _, code, test, command, _ = row
    for file in re.findall("`([^`]+)`", code):
        assert (HERE / "src" / "dwindle" / file).is_file(), file
    for named in re.findall("`([^`]+)`", test):
        file, _, function = named.partition("::")
        assert (HERE / "tests" / file).is_file(), file
        assert not function or f"def {function}(" in (HERE / "tests" / file).read_text(
            encoding="utf-8"
        ), named
    for recipe in re.findall(r"dwindle run ([\w-]+/[\w-]+)", command):
        assert shelf.find(recipe), recipe


def test_the_settings_are_those_of_the_recipes():
    """``python -m tests.paper_settings`` writes them again."""
    assert paper_settings.PAGE.read_text(encoding="utf-8") == paper_settings.page()


def test_the_settings_of_a_row_are_whole():
    """Every row that can be run is there once, with what it continues."""
    rows = [made.row for made in paper_settings.printed()]
    assert len(rows) == len(set(rows)) == 30
    line = next(row for row in paper_settings.table().splitlines() if "`cnndm/pg`" in row)
    for said in ("Table 1: PG |", "batch_size=32,", "learning_rate=0.15", "source_length=400"):
        assert said in line
    assert "continues `cnndm/pg`, steps=3000" in paper_settings.table()
