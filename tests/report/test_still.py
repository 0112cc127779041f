"""The still picture of what was left out: every letter is there, and marks stand behind their
words."""

from xml.etree import ElementTree

import pytest

from dwindle.report import still

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*given, **more):
    picture = ElementTree.fromstring(still.still(*given, **more))
    texts = [one for one in picture.iter(f"{SVG}text") if one.get("class") is None]
    marks = [one for one in picture.iter(f"{SVG}rect") if one.get("class") == "mark"]
    return picture, texts, marks


@pytest.mark.parametrize(
    "text",
    [
        "one two three " * 20,
        "大桥将于明年关闭。" * 12,
        "a" * 200,
        "short\nlines\n\nhere",
        "",
        "  two  spaces" * 20,
    ],
)
def test_lines_keep_their_places(text):
    lines = list(still._lines(text))
    for start, line in lines:
        assert text[start : start + len(line)] == line
        assert still.cells(line) <= still.COLUMNS
    shown = {n for start, line in lines for n in range(start, start + len(line))}
    assert all(text[n] in " \n" for n in range(len(text)) if n not in shown)


def test_marks_stand_behind_their_words():
    text = "The bridge <b>is</b> closed & the ferry goes from the other side of the river at noon."
    at = text.index("ferry")
    _, texts, (mark,) = drawn(text, "out", [(at, at + 5)], "No alarm")
    assert "<b>is</b>" in texts[0].text
    assert float(mark.get("x")) == pytest.approx(still.MARGIN + at * still.CELL - 2, abs=0.1)
    assert float(mark.get("width")) == pytest.approx(5 * still.CELL + 4, abs=0.1)


def test_wide_letters_have_two_cells():
    _, texts, (mark,) = drawn("a大桥将于明年关闭", "b", [(1, 3)], "", alarm=True)
    assert float(texts[0].get("textLength")) == pytest.approx(17 * still.CELL, abs=0.1)
    assert float(mark.get("width")) == pytest.approx(4 * still.CELL + 4, abs=0.1)


def test_a_mark_over_two_lines_is_two():
    text = "word " * 20
    _, _, marks = drawn(text.strip(), "b", [(40, 70)], "said")
    assert len(marks) == 2
    picture, _, none = drawn(text, "b", [], "said")
    assert not none
    assert picture.find(f"{SVG}title").text.endswith("marked: nothing")
