"""The still picture of the README: drawn from committed findings, in light and dark."""

import runpy
from xml.etree import ElementTree

import pytest

from tests.docs.pages import HOME

SCRIPT = runpy.run_path(str(HOME / "docs/demo/omission.py"))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def parts():
    letters, findings = (
        SCRIPT["_read"](HOME / "docs/demo" / SCRIPT[name]) for name in ("LETTERS", "FINDINGS")
    )
    worst = max(findings, key=lambda found: found["score"])
    return next(one for one in letters if one["id"] == worst["id"]), worst


def test_the_committed_picture_is_the_one_that_is_drawn(parts):
    assert SCRIPT["drawn"](*parts) == (HOME / "docs/demo/omission.svg").read_text(encoding="utf-8")


def test_it_shows_both_texts_whole_and_marks_what_is_missing(parts):
    letter, found = parts
    drawn = ElementTree.fromstring(SCRIPT["drawn"](letter, found))
    texts = [one.text for one in drawn.iter(f"{SVG}text") if one.get("class") is None]
    assert " ".join(texts) == f"{letter['source']} {letter['hypothesis']}"
    assert found["alarm"]
    assert "Either side may end the contract" in " ".join(span["text"] for span in found["spans"])
    assert [one for one in drawn.iter(f"{SVG}rect") if one.get("class") == "mark"]
    assert "prefers-color-scheme: dark" in drawn.find(f"{SVG}style").text


def test_pages_say_what_the_committed_files_have(parts):
    """README how many sentences heads were chosen on, OMISSIONS.md the scores and the marks."""
    count = len((HOME / "docs/demo/sentences.jsonl").read_text(encoding="utf-8").splitlines())
    assert count == len((HOME / "docs/demo/sentences.txt").read_text(encoding="utf-8").splitlines())
    assert f"from {count} other sentences" in (HOME / "README.md").read_text(encoding="utf-8")
    assert f", {count} ordinary sentences" in SCRIPT["__doc__"]
    manual = (HOME / "docs/OMISSIONS.md").read_text(encoding="utf-8")
    for found in SCRIPT["_read"](HOME / "docs/demo" / SCRIPT["FINDINGS"]):
        assert (
            f"{found['id']}  {'' if found['alarm'] else 'no '}alarm, score {found['score']:.2f}\n"
            in manual
        )
        assert all(f"[[{span['text']}]]" in manual for span in found["spans"])
