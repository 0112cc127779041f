"""PreSumm's limits for sentences and pairs, each at its edge."""

import json

import pytest

from dwindle.data import presumm
from dwindle.data.example import Example
from dwindle.data.load import DataSettings, load

LONG = "one two three four five six"
SHORT = "one two three four five"


def test_sentences():
    assert presumm.trimmed(f"{SHORT}\n{LONG}\n{SHORT}") == LONG
    assert presumm.trimmed(SHORT) == SHORT  # nothing would be left
    assert presumm.trimmed("w " * 300).split() == ["w"] * 200
    assert presumm.trimmed("\n".join([LONG] * 120)).count("\n") == 99


@pytest.mark.parametrize(
    ("source", "target", "right"),
    [
        ([LONG] * 3, "a b c", True),
        ([LONG] * 2 + [SHORT], "a b c", False),
        ([LONG] * 3, "a b", False),  # with its start and end four tokens
        ([LONG] * 3, "a\nb", True),  # and the separator
    ],
)
def test_pairs(source, target, right):
    assert presumm.fits(Example("1", "\n".join(source), (target,))) == right


def test_a_corpus(tmp_path):
    """Pairs of training and dev are left out, those of the test split are not."""
    pairs = [
        {"source": f"{LONG}\n{SHORT}\n{LONG}\n{LONG}", "target": "a b c"},
        {"source": LONG, "target": "a b c"},
    ]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    settings = DataSettings("jsonl", str(tmp_path), presumm=True)
    for split in ("train", "dev"):
        with pytest.warns(UserWarning, match=f"1 of 2 {split} pairs are left out, as PreSumm does"):
            assert [e.source for e in load(settings, split)] == ["\n".join([LONG] * 3)]
    assert [e.source for e in load(settings, "test")] == ["\n".join([LONG] * 3), LONG]
