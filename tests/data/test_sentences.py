"""Running text to sentences."""

import pytest

from dwindle.data.sentences import split


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Mr. Smith met Dr. J. K. Low in the U.S. Army.", ["Mr. Smith met Dr. J. K. Low in the U.S. Army."]),
        ('It cost $3.5 million. "Too much," he said.', ["It cost $3.5 million.", '"Too much," he said.']),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("one two . three four ! five", ["one two .", "three four !", "five"]),
        ("`` go . '' he left . '", ["`` go . ''", "he left . '"]),
        ("first line\nsecond. Third.\n\n", ["first line", "second. Third."]),
        ("no end", ["no end"]),
        ("Dr.", ["Dr."]),
        ("", []),
        (" \n ", []),
    ],
)
def test_examples(text, parts):
    assert split(text) == parts


def test_nothing_is_lost():
    text = "A. b. C d! E (f.) G 'h.' I . J . K"
    assert "".join("".join(split(text)).split()) == "".join(text.split())
