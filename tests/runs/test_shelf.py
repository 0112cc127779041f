"""Recipe files: inheritance, starts, changes of the command line, and what is wrong with them."""

import pytest

from dwindle.runs import shelf


@pytest.fixture
def write(tmp_path):
    def write(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_a_base_is_taken_over_key_by_key_without_its_labels(write):
    write("a.yaml", "about: first\npublished: {rouge1: 1}\nmodel: {kind: bart, layers: 7}\ntraining: {steps: 5}\n")
    write("b.yaml", "base: a.yaml\nmodel: {layers: 1}\n")
    c = write("c.yaml", "base: b.yaml\nabout: third\ntraining: null\n")
    assert shelf.mapping(c) == {
        "name": "c",
        "about": "third",
        "model": {"kind": "bart", "layers": 1},
        "training": None,
    }


def test_a_start_is_another_recipe_as_a_whole(write):
    write("a.yaml", "model: {kind: bart}\nseed: 3\n")
    write("b.yaml", "base: a.yaml\nstart: a.yaml\nmodel: {layers: 2}\n")
    c = write("c.yaml", "base: b.yaml\nstart: b.yaml\n")
    found = shelf.mapping(c)
    assert found["model"] == {"kind": "bart", "layers": 2}
    assert found["start"]["name"] == "b"
    assert found["start"]["start"] == {"name": "a", "model": {"kind": "bart"}, "seed": 3}


def test_a_start_may_be_written_out(write):
    write("a.yaml", "model: {kind: bart}\ntraining: {steps: 5}\n")
    b = write("b.yaml", "base: a.yaml\nstart: {base: a.yaml, training: {steps: 1}}\n")
    assert shelf.mapping(b)["start"] == {"model": {"kind": "bart"}, "training": {"steps": 1}}


def test_changes_reach_anywhere_and_are_yaml(write):
    write("a.yaml", "training: {steps: 5, rate: 1}\n")
    b = write("b.yaml", "base: a.yaml\nstart: a.yaml\n")
    found = shelf.mapping(
        b, ["training.steps=7", "start.training.steps=2", "x.y.z=[1, a]", "rule=dydim:log,power(0.5)"]
    )
    assert found["training"] == {"steps": 7, "rate": 1}
    assert found["start"]["training"] == {"steps": 2, "rate": 1}
    assert found["x"] == {"y": {"z": [1, "a"]}}
    assert found["rule"] == "dydim:log,power(0.5)"
    assert shelf.mapping(b, ["training=null"])["training"] is None
    assert shelf.mapping(b, ["start=newsroom/base"])["start"]["name"] == "newsroom/base"


def test_a_checkpoint_takes_the_place_of_the_start(write):
    write("a.yaml", "model: {kind: bart}\n")
    b = write("b.yaml", "base: a.yaml\nstart: a.yaml\n")
    found = shelf.mapping(b, ["model.start=folder"])
    assert found["model"] == {"kind": "bart", "start": "folder"}
    assert "start" not in found
    assert "start" in shelf.mapping(b, ["model.start=null"])
    assert shelf.mapping(b, ["model.start=folder", "start=newsroom/base"])["start"]["name"] == "newsroom/base"


def test_a_change_of_data_reaches_the_starts_with_the_same_corpus(write):
    write("a.yaml", "data: {corpus: other}\n")
    write("b.yaml", "data: {corpus: news}\nstart: a.yaml\n")
    c = write("c.yaml", "data: {corpus: news}\nstart: b.yaml\n")
    found = shelf.mapping(c, ["data.path=here", "start.data.size=3"])
    assert found["data"] == {"corpus": "news", "path": "here"}
    assert found["start"]["data"] == {"corpus": "news", "path": "here", "size": 3}
    assert found["start"]["start"]["data"] == {"corpus": "other"}


@pytest.mark.parametrize(
    ("text", "changes", "complaint"),
    [
        ("base: x.yaml\n", [], "takes itself as a base or start"),
        ("start: x.yaml\n", [], "takes itself as a base or start"),
        ("base: nowhere.yaml\n", [], "there is no .*nowhere.yaml"),
        ("base: newsrom/base\n", [], "no recipe is called 'newsrom/base': did you mean newsroom/base"),
        ("base: zzzzzzzzzzzz\n", [], "type dwindle recipes"),
        ("- 1\n", [], "is not a recipe: write keys and values"),
        ("a: 1\n", ["a.b=2"], "a.b cannot be set: a is 1"),
        ("a: 1\n", ["steps"], "'steps' is not a change of a recipe: write key=value"),
        ("a: 1\n", ["b=[1"], "the value of b, line . is not YAML"),
    ],
)
def test_what_is_wrong_is_named(write, text, changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        shelf.mapping(write("x.yaml", text), changes)
