"""What is named is read, what is missing is said, and only the same items are compared."""

import json

import pytest

from dwindle.analysis import arms
from tests import folders


def names(shown):
    return [[arm.name for arm in test.arms] for test in shown.tests]


def test_plain_files_on_the_same_items_are_one_test_set(tmp_path):
    one, two = folders.plain(tmp_path / "a.jsonl", 1), folders.plain(tmp_path / "b.jsonl", 2)
    assert names(arms.read([one, two])) == [["a", "b"]]


def test_other_items_are_another_test_set(tmp_path):
    one = folders.plain(tmp_path / "a.jsonl", 1)
    two = folders.plain(tmp_path / "b.jsonl", 2, count=5)
    assert names(arms.read([one, two])) == [["a"], ["b"]]


def test_equal_names_get_their_folders(tmp_path):
    paths = [folders.plain(tmp_path / x / "same" / "outputs.jsonl", x) for x in ("one", "two")]
    other = folders.plain(tmp_path / "z.jsonl", 3)
    assert names(arms.read([*paths, other])) == [["one/same", "two/same", "z"]]


def test_outputs_in_folders_of_one_name_are_called_after_what_differs(tmp_path):
    paths = [folders.plain(tmp_path / x / "final" / "outputs.jsonl", x) for x in ("one", "two")]
    assert names(arms.read(paths)) == [["one", "two"]]


def test_a_run_folder_and_its_files(tmp_path):
    folder = folders.run(tmp_path / "dim", given=folders.recipe("dim:log"))
    (folder / "scores.json").write_text(
        json.dumps({"items": 12, "scores": [{"metric": "mover1", "value": 20.0}]})
    )
    [test] = arms.read([folder]).tests
    [run] = test.arms[0].runs
    assert test.name == "newsroom"
    assert run.settings["model"]["rule"] == "dim:log"
    assert run.scores.records[0]["metric"] == "mover1"
    assert run.file("coverage.npz") == folder / "coverage.npz"
    assert run.file("none.npz") is None


def test_an_arena_has_its_base_first_and_a_run_for_each_seed(tmp_path):
    folder = folders.arena(tmp_path / "arena")
    content = json.loads((folder / "arena.json").read_text()) | {"base": "dim"}
    (folder / "arena.json").write_text(json.dumps(content))
    [test] = arms.read([folder]).tests
    assert [(arm.name, len(arm.runs)) for arm in test.arms] == [("dim", 2), ("plain", 2)]


def test_an_unfinished_run_is_a_sentence_and_the_rest_stands(tmp_path):
    folder = folders.arena(tmp_path / "arena")
    (folder / "dim" / "seed-2" / "outputs.jsonl").unlink()
    shown = arms.read([folder])
    assert [len(arm.runs) for arm in shown.tests[0].arms] == [2, 1]
    assert len(shown.missing) == 1
    assert "seed-2 has no outputs.jsonl" in shown.missing[0]


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda f: (f / "outputs.jsonl").unlink(), "no outputs.jsonl"),
        (lambda f: (f / "run.json").write_text("{"), "run.json is not JSON"),
        (lambda f: (f / "scores.json").write_text("[]"), "does not hold a JSON object"),
        (lambda f: (f / "recipe.yaml").write_text("a: [1"), "recipe.yaml is not YAML"),
        (lambda f: (f / "arena.json").write_text("{}"), "has no 'base'"),
    ],
)
def test_bad_folders_in_one_sentence(tmp_path, spoil, sentence):
    folder = folders.run(tmp_path / "run")
    spoil(folder)
    with pytest.raises(ValueError, match=sentence):
        arms.read([folder])


def test_nothing_named_not_there_or_named_twice(tmp_path):
    file = folders.plain(tmp_path / "a.jsonl")
    with pytest.raises(ValueError, match="nothing was named"):
        arms.read([])
    with pytest.raises(ValueError, match="is not there"):
        arms.read([tmp_path / "none"])
    with pytest.raises(ValueError, match="named 2 times"):
        arms.read([file, file])


def test_systems_can_be_given_names(tmp_path):
    paths = [folders.plain(tmp_path / f"{name}.jsonl", name) for name in "ab"]
    [test] = arms.read(paths, ["plain", "dim"]).tests
    assert [arm.name for arm in test.arms] == ["plain", "dim"]
    with pytest.raises(ValueError, match="1 names for 2 systems"):
        arms.read(paths, ["plain"])
    with pytest.raises(ValueError, match="x was named 2 times"):
        arms.read(paths, ["x", "x"])


def test_arms_of_two_test_sets_keep_their_names(tmp_path):
    one = folders.arena(tmp_path / "one")
    two = [
        folders.run(tmp_path / "two" / name, k, count=5) for k, name in enumerate(("plain", "dim"))
    ]
    first, second = arms.read([one, *two]).tests
    assert [arm.name for arm in first.arms] == [arm.name for arm in second.arms] == ["plain", "dim"]
