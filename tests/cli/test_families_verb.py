"""``dwindle families`` as a user types it, and the page made from it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dwindle.attaching.families import FAMILIES
from dwindle.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "FAMILIES.md"


def run(capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(["families", *arguments])
    assert stop.value.code == 0
    return capsys.readouterr().out


def test_the_page_is_what_the_command_prints(capsys):
    assert PAGE.read_text(encoding="utf-8") == run(capsys, "--md"), (
        "run: dwindle families --md > docs/FAMILIES.md"
    )


def test_the_table_names_every_family(capsys):
    out = " ".join(run(capsys).split())
    assert all(family.name.split(" (")[0] in out for family in FAMILIES)
    assert "share one softmax" in out


def test_as_json(capsys):
    rows = {row["name"]: row for row in json.loads(run(capsys, "--json"))}
    assert len(rows) == len(FAMILIES)
    assert rows["BART"]["path"] == "registry"
    assert rows["ProphetNet"]["checked"] == []


def test_it_needs_no_transformers():
    code = (
        "import sys; sys.modules['transformers'] = None\n"
        "from dwindle.cli.main import main\n"
        "main(['families', '--json'])"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
