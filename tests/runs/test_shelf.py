"""Recipe files: inheritance, starts, changes of the command line, and what is wrong with them."""

import pytest

from dwindle.metrics import catalogue
from dwindle.runs import shelf


@pytest.fixture
def write(tmp_path):
    def write(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_a_base_is_taken_over_key_by_key_without_its_labels(write):
    write(
        "a.yaml",
        "about: first\npublished: {rouge1: 1}\nmodel: {kind: bart, layers: 7}\ntraining: {steps: "
        "5}\n",
    )
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
        b,
        ["training.steps=7", "start.training.steps=2", "x.y.z=[1, a]", "rule=dydim:log,power(0.5)"],
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
    assert (
        shelf.mapping(b, ["model.start=folder", "start=newsroom/base"])["start"]["name"]
        == "newsroom/base"
    )


def test_a_change_of_data_reaches_the_starts_with_the_same_corpus(write):
    write("a.yaml", "data: {corpus: other}\n")
    write("b.yaml", "data: {corpus: news}\nstart: a.yaml\n")
    c = write("c.yaml", "data: {corpus: news}\nstart: b.yaml\n")
    found = shelf.mapping(c, ["data.path=here", "start.data.size=3"])
    assert found["data"] == {"corpus": "news", "path": "here"}
    assert found["start"]["data"] == {"corpus": "news", "path": "here", "size": 3}
    assert found["start"]["start"]["data"] == {"corpus": "other"}


TASK = """# dwindle run task.yaml/plain
# What all arms have in common.
about: A task
scale: an hour
start: first
model: {kind: bart, layers: 7}
training: {steps: 5}

arms:
  first:
    # Where the others begin.
    about: The checkpoint
    scale: a day
    start: null
    training: {steps: 100}
  plain:
  dim:
    about: Dim
    model: {rule: dim:log}
  dim-more:
    base: dim
    training: {steps: 50}
"""


def test_an_arm_stands_on_what_its_task_shares(write):
    task = write("task.yaml", TASK)
    first = {"name": "task/first", "about": "The checkpoint", "scale": "a day", "start": None}
    first |= {"model": {"kind": "bart", "layers": 7}, "training": {"steps": 100}}
    assert shelf.mapping(f"{task}/first") == first
    assert shelf.mapping(f"{task}/dim") == {
        "name": "task/dim",
        "about": "Dim",
        "scale": "an hour",
        "start": first,
        "model": {"kind": "bart", "layers": 7, "rule": "dim:log"},
        "training": {"steps": 5},
    }
    assert "about" not in shelf.mapping(f"{task}/plain")


def test_an_arm_with_a_base_changes_that(write):
    found = shelf.mapping(f"{write('task.yaml', TASK)}/dim-more")
    assert found["model"] == {"kind": "bart", "layers": 7, "rule": "dim:log"}
    assert found["training"] == {"steps": 50}
    assert found["start"]["name"] == "task/first"
    assert (found.get("about"), found["scale"]) == (None, "an hour")


def test_arms_are_bases_and_starts_of_other_files(write):
    write("task.yaml", TASK)
    mine = write("mine.yaml", "base: task.yaml/dim\nstart: task.yaml/plain\n")
    assert shelf.mapping(mine)["model"]["rule"] == "dim:log"
    assert shelf.mapping(mine)["start"]["start"]["name"] == "task/first"
    for shipped in ("newsroom/dim", "ablation/pg-dim-blocking"):
        assert (
            shelf.mapping(write("it.yaml", f"base: {shipped}\n"))["model"]
            == shelf.mapping(shipped)["model"]
        )


def test_the_base_of_a_task_is_anybodys(write):
    task = write(
        "task.yaml", "base: newsroom/base\nseed: 7\narms:\n  one: {}\n  two: {base: cnndm/pg}\n"
    )
    assert shelf.mapping(f"{task}/one")["data"]["corpus"] == "newsroom"
    assert shelf.mapping(f"{task}/one")["seed"] == 7
    assert shelf.mapping(f"{task}/two")["data"]["corpus"] == "cnndm"
    assert "seed" not in shelf.mapping(f"{task}/two")


@pytest.mark.parametrize(
    "name", ["newsroom/plain", "newsroom/dim", "cnndm/pg-dydim", "image/sc-dydim-grid"]
)
def test_the_text_of_an_arm_is_a_recipe_of_its_own(write, name):
    found = shelf.mapping(write("it.yaml", shelf.text(name)))
    assert found | {"name": name} == shelf.mapping(name)


def test_the_text_of_an_arm_has_its_comments_and_names_that_any_file_finds(write):
    task = write("task.yaml", TASK)
    first = shelf.text(f"{task}/first").splitlines()
    assert first[:3] == [
        "# dwindle run task.yaml/plain",
        "# What all arms have in common.",
        "# Where the others begin.",
    ]
    more = shelf.text(f"{task}/dim-more")
    assert f"base: {task}/dim\n" in more
    assert shelf.mapping(write("it.yaml", more)) | {"name": "task/dim-more"} == shelf.mapping(
        f"{task}/dim-more"
    )
    assert shelf.text(task) == TASK


@pytest.mark.parametrize(
    ("text", "name", "complaint"),
    [
        (TASK, "task.yaml", "is a task of 4 recipes: name one of them, such as .*task.yaml/first"),
        (TASK, "task.yaml/dimm", "has no arm called 'dimm': did you mean dim"),
        ("seed: 1\n", "task.yaml/dim", "has no arm called 'dim': choose from none"),
        ("arms: 3\n", "task.yaml/dim", "has no recipes below arms"),
        ("arms: {}\n", "task.yaml", "has no recipes below arms"),
        ("arms: {dim: 3}\n", "task.yaml/dim", "the arm dim is not a recipe"),
        ("arms: {a: {arms: {b: {}}}}\n", "task.yaml/a", "the arm a is not a recipe"),
        ("arms: {a/b: {}}\n", "task.yaml/a", "an arm called 'a/b': choose a word without a slash"),
        ("arms: {a: {base: b}, b: {start: a}}\n", "task.yaml/a", "takes itself as a base or start"),
        ("start: a\narms: {a: {}}\n", "task.yaml/a", "takes itself as a base or start"),
    ],
)
def test_what_is_wrong_with_a_task_is_named(write, text, name, complaint):
    folder = write("task.yaml", text).removesuffix("task.yaml")
    with pytest.raises(ValueError, match=complaint):
        shelf.mapping(f"{folder}{name}")


def test_a_shipped_task_is_not_a_recipe():
    with pytest.raises(
        ValueError, match=r"news is a task of \d+ recipes: name one of them, such as news/base"
    ):
        shelf.mapping("news")


@pytest.mark.parametrize(
    ("text", "changes", "complaint"),
    [
        ("base: x.yaml\n", [], "takes itself as a base or start"),
        ("start: x.yaml\n", [], "takes itself as a base or start"),
        ("base: nowhere.yaml\n", [], "there is no .*nowhere.yaml"),
        (
            "base: newsrom/base\n",
            [],
            "no recipe is called 'newsrom/base': did you mean newsroom/base",
        ),
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


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in shelf.shipped()
        if "Table 1" in str(shelf.labels(n)["row"]) or "Table 2" in str(shelf.labels(n)["row"])
    ],
)
def test_tables_1_and_2_have_moverscore(name):
    assert "mover" in shelf.mapping(name)["metrics"]


def test_the_option_of_a_metric():
    """MoverScore waits in the recipes until its encoder is named."""
    found = shelf.mapping("cnndm/pg-dim")
    assert "mover" in found["metrics"]
    named = shelf.mapping("cnndm/pg-dim", ["metrics.mover=some/bert"])
    assert named["metrics"] == [f"{m}:some/bert" if m == "mover" else m for m in found["metrics"]]
    assert catalogue.ready(found["metrics"]) == [m for m in found["metrics"] if m != "mover"]
    assert catalogue.ready(named["metrics"]) == named["metrics"]
    assert catalogue.waiting(found["metrics"]) == [
        "mover is not measured: name an encoder with metrics.mover=FOLDER"
    ]
    assert catalogue.waiting(named["metrics"]) == []
