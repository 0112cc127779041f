"""What the page asks for: read strictly, and every mistake is one sentence."""

import pytest

from dwindle.studio import asked
from tests.studio.studio_kit import TEXT, Slow

AUTHORS = [Slow("one"), Slow("two", "dim:log")]
GOOD = {
    "text": TEXT,
    "answers": [{"model": 0, "rule": "", "layers": None}],
    "decoding": {"beams": 2},
}


def test_a_request_becomes_answers_and_settings():
    rows = [
        {"model": 0, "rule": " ", "layers": None},
        {"model": 1, "rule": "", "layers": None},
        {"model": 0, "rule": "training-free", "layers": 2},
        {"model": 0, "rule": "training-free", "layers": 2},
    ]
    text, answers, settings = asked.read(
        GOOD | {"text": f"\r\n{TEXT}\r\n", "answers": rows}, AUTHORS, ["one", "two"]
    )
    assert text == TEXT
    names = [
        "one plain",
        "two dim:log",
        "one training-free, last 2 layers",
        "one training-free, last 2 layers (4)",
    ]
    assert [answer.name for answer in answers] == names
    assert (answers[0].rule, answers[2].rule, answers[2].layers) == (None, "training-free", 2)
    assert (settings.beams, settings.max_length) == (2, 50)


def test_one_model_goes_by_its_rules():
    _, (answer,), _ = asked.read(GOOD, AUTHORS[:1], [""])
    assert answer.name == "plain"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"text": " \n"}, "there is no text yet"),
        ({"text": 7}, "there is no text yet"),
        ({"text": "x" * 100_001}, "at most 100,000"),
        ({"answers": []}, "1 to 4 outputs"),
        ({"answers": [{"model": 2, "rule": ""}]}, "names no model"),
        ({"answers": [{"model": "0", "rule": ""}]}, "names no model"),
        ({"answers": ["x"]}, "names no model"),
        ({"answers": [{"model": 0, "rule": "dim:nonsense"}]}, "nonsense"),
        ({"answers": [{"model": 0, "rule": "", "layers": "last"}]}, "layers are a number"),
        ({"decoding": {"beams": 0}}, "beams is 0"),
        ({"decoding": {"beams": 2.5}}, "give a number"),
        ({"decoding": {"beams": True}}, "give a number"),
        ({"decoding": {"beams": None}}, "give a number"),
        ({"decoding": {"temporal": 1}}, "does not know"),
        ({"decoding": {"repetition_penalty": 0}}, "above 0"),
    ],
)
def test_mistakes_in_one_sentence(change, said):
    with pytest.raises(ValueError, match=said):
        asked.read(GOOD | change, AUTHORS, ["one", "two"])


def test_anything_else_is_refused():
    with pytest.raises(ValueError, match="does not come from"):
        asked.read([], AUTHORS, ["one", "two"])
