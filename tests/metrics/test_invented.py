"""Numbers and names that an output has and its source lacks."""

import pytest

from dwindle.metrics import catalogue
from dwindle.metrics.invented import Invented, names, numbers
from dwindle.runfiles.outputs import Item


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a fever of 39.4 degrees at 5:30", {"39.4", "5:30"}),
        ("1,200 people, or 1200", {"1200"}),
        ("in 2014, and 3.", {"2014", "3"}),
        ("no number", set()),
    ],
)
def test_numbers(text, found):
    assert numbers(text) == found


def test_names_stand_inside_a_sentence():
    assert names("The mayor met Anna Bell. She left Rome.\nParis is far.") == {
        "anna",
        "bell",
        "rome",
    }
    # what begins a quotation or a bracket may be any word
    assert names('He said "Never" to (Bob) there') == set()
    assert names("the mayor of paris") == set()


def test_what_the_source_has_is_not_invented():
    source = "Anna Bell, 39, met the mayor of Rome in 2014. 1,200 came."
    row = Invented().row(
        Item("1", "Then 1200 met Anna in Paris, aged 40, and Paris in 40.", ("x",), source)
    )
    assert row == [1, 1]
    assert Invented().row(Item("1", "", ("x",), source)) == [0, 0]


def test_it_is_found_by_name_and_asked_for():
    assert [m.name for m in catalogue.find(["invented"])] == ["invented-numbers", "invented-names"]
    with pytest.raises(ValueError, match="no option"):
        catalogue.find(["invented:micro"])
