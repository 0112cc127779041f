"""The moving picture of the README: made of runs, and right without moving too."""

import runpy
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from dwindle.runfiles import arrays, names
from tests.docs.pages import HOME

SCRIPT = str(HOME / "docs/demo/moving.py")
SVG = "{http://www.w3.org/2000/svg}"


def trace(output: list[str], id: str = "one") -> arrays.Trace:
    text = "the ferry\nwas <late>"
    weights = np.full((len(output), 4), 0.25, dtype=np.float32)
    return arrays.Trace(id, text, text.split(), [0, 4, 10, 14], output, weights, weights)


LOOP = ["the", " ferry", " was", "\nthe", " ferry", " was"]


@pytest.fixture
def runs(tmp_path):
    for name, output in (("plain", LOOP), ("dim", ["the", " ferry", " was", " late"])):
        (tmp_path / name).mkdir()
        made = [trace(["a"], "short"), trace(output)]
        arrays.write_traces(tmp_path / name / names.TRACES, made)
    return tmp_path


def test_what_was_said_before_is_marked():
    again = runpy.run_path(SCRIPT)["again"]
    assert again(trace(LOOP)) == [False] * 3 + [True] * 3
    assert not any(again(trace(LOOP[:4])))


def test_the_item_with_the_largest_difference_is_drawn(runs, monkeypatch, capsys):
    out = runs / "moving.svg"
    monkeypatch.setattr(
        sys, "argv", ["moving.py", str(runs / "plain"), str(runs / "dim"), "--out", str(out)]
    )
    runpy.run_path(SCRIPT, run_name="__main__")
    assert capsys.readouterr().out.endswith(": one\n")
    drawn = ElementTree.parse(out).getroot()
    said = [text.text for text in drawn.iter(f"{SVG}text") if text.get("class") == "again"]
    assert said == ["the", "ferry", "was"]
    shades = [
        float(rect.get("fill-opacity"))
        for rect in drawn.iter(f"{SVG}rect")
        if rect.get("class") == "used"
    ]
    assert shades == [1.0] * 4 + [0.67] * 4  # six steps against four, on one scale
    # without animation it stands there
    assert all(text.get("opacity") is None for text in drawn.iter(f"{SVG}text"))
    moves = list(drawn.iter(f"{SVG}animate"))
    assert len(moves) == 8 + 5 + 3
    for move in moves:
        times = [float(time) for time in move.get("keyTimes").split(";")]
        assert times == sorted(times)
        assert len(times) == len(move.get("values").split(";"))
        assert times[0] == 0
