"""A grid: every combination is tried on dev, the best is run on test, and nothing is done twice."""

import json

import pytest

from dwindle.runs import grid, job, recipe, steps

GRID = "grid={by: rouge1, values: {model.rule: [plain, 'dim:log'], decoding.beams: [1, 2]}}"


@pytest.fixture(scope="module")
def searched(small, tmp_path_factory):
    out = tmp_path_factory.mktemp("grid") / "out"
    wanted = small("newsroom/dim", GRID)
    return wanted, out, grid.search(wanted, out)


def test_every_try_is_kept(searched):
    _, out, _ = searched
    record = json.loads((out / "grid.json").read_text())
    tried = [tuple(one["changes"].values()) for one in record["tries"]]
    assert tried == [("plain", 1), ("plain", 2), ("dim:log", 1), ("dim:log", 2)]
    assert record["signature"].startswith("rouge1")
    values = [one["value"] for one in record["tries"]]
    assert record["best"] == values.index(max(values)) + 1
    for one in record["tries"]:
        run = job.find(out / one["folder"])
        assert (run.recipe.split, run.recipe.grid) == ("dev", None)
        assert (run.recipe.model.rule, run.recipe.decoding.beams) == tuple(one["changes"].values())
        assert sorted(item.id for item in run.outputs.items) == sorted(
            e.id for e in run.examples("dev")
        )
        scored = {s["metric"]: s["value"] for s in run.scores.records}
        assert scored["rouge1"] == pytest.approx(one["value"])
    page = (out / "grid.md").read_text()
    assert page.count("| tries/") == 4
    assert page.count("**") == 2


def test_the_winner_is_run_on_test(searched):
    _, out, best = searched
    record = json.loads((out / "grid.json").read_text())
    winner = record["tries"][record["best"] - 1]["changes"]
    assert (best.recipe.model.rule, best.recipe.decoding.beams) == tuple(winner.values())
    assert best.recipe.split == "test"
    test = [e.id for e in best.examples("test")]
    assert sorted(item.id for item in best.outputs.items) == sorted(test)
    assert best.record["stages"]["train"]["same_as"] == f"../tries/{record['best']:02d}"


def test_one_model_for_all_that_decode_it_otherwise(searched):
    _, out, _ = searched
    alike = [
        job.find(out / "tries" / f"{n:02d}").record["stages"]["train"].get("same_as")
        for n in (1, 2, 3, 4)
    ]
    assert alike == [None, "../01", None, "../03"]


def test_what_is_done_is_not_done_again(searched, monkeypatch):
    wanted, out, best = searched

    def fail(*_):
        raise AssertionError("done again")

    monkeypatch.setattr(steps, "fit", fail)
    monkeypatch.setattr(steps, "decode", fail)
    assert grid.search(wanted, out).path == best.path


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("{by: rouge, values: {model.layers: [1]}}", "is 3 metrics: choose by one of"),
        ("{by: length, values: {model.layers: [1]}}", "neither higher nor lower is better"),
        (
            "{by: rouge1, values: {model.rule: [plain, 'dim:sqr']}}",
            "cannot try model.rule=dim:sqr: ",
        ),
        (
            "{by: rouge1, values: {model.rul: [plain]}}",
            "cannot try model.rul=plain: .*did you mean model.rule",
        ),
        ("{by: rouge1, values: {}}", "give each setting one value or more"),
        ("{by: rouge1, values: {decoding.beams: []}}", "give each setting one value or more"),
        (
            "{by: rouge1, values: {start.seed: [1, 2]}}",
            "a grid is over settings of model, training and decoding",
        ),
    ],
)
def test_a_bad_grid_is_one_sentence_and_leaves_nothing(given, says, small, tmp_path):
    with pytest.raises(ValueError, match=says):
        grid.search(small("newsroom/dim", f"grid={given}"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_papers_grids_are_shipped():
    counts = {
        name: len(list(grid.tried(recipe.read(name))))
        for name in ("cnndm/bart-dim-grid", "cnndm/bart-dydim-grid")
    }
    assert counts == {"cnndm/bart-dim-grid": 3, "cnndm/bart-dydim-grid": 9}
    assert len(list(grid.tried(recipe.read("cnndm/bart-dim-layers")))) == 12
    bases = [one.changes["model.rule"] for one in grid.tried(recipe.read("image/xe-dim-grid"))]
    assert bases == ["dim:log(1.9)", "dim:log(2.1)", "dim:log(2.3)", "dim:log(2.7)"]
