"""The steps of a run: what they leave behind, that they are done once, and that a run that was
stopped goes on."""

import errno
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from dwindle.runfiles import outputs, whole
from dwindle.runs import job, steps


@pytest.fixture(scope="module")
def done(small, tmp_path_factory):
    """A finished run of newsroom/dim, and what was said meanwhile."""
    said: list[str] = []
    folder = tmp_path_factory.mktemp("runs") / "dim"
    return steps.run(small("newsroom/dim"), folder, say=said.append), said


def times(folder):
    return {
        path: path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture
def untrainable(monkeypatch):
    """Nothing may be trained any more."""

    def fail(*_):
        raise AssertionError("trained again")

    monkeypatch.setattr(steps, "fit", fail)


def test_the_folder_has_all_that_it_should(done):
    run, said = done
    names = {path.name for path in run.path.iterdir()}
    assert names >= {
        "recipe.yaml",
        "run.json",
        "model",
        "logs",
        "outputs.jsonl",
        "coverage.npz",
        "traces.npz",
    }
    assert "checkpoints" not in names
    assert {path.name for path in (run.path / "start").iterdir()} >= {
        "recipe.yaml",
        "run.json",
        "model",
    }
    assert not (run.path / "start" / "outputs.jsonl").exists()
    assert run.scores.items == 6
    assert {"rouge1", "omission", "entropy-raw"} <= {s["metric"] for s in run.scores.records}
    assert [line.rpartition(": ")[2] for line in said] == [
        "training",
        "training",
        "generating",
        "scoring",
    ]
    stages = run.record["stages"]
    assert stages["train"]["examples"] == 24
    assert stages["train"]["truncated"] == 24  # all articles have more than 40 words
    assert (stages["generate"]["items"], stages["generate"]["truncated"]) == (6, 6)


def test_what_is_done_is_not_done_again(done, untrainable):
    run, _ = done
    before = times(run.path)
    steps.run(run.recipe, run.path)
    assert times(run.path) == before


def test_the_rule_is_in_the_saved_model(done):
    run, _ = done
    config = json.loads((run.model / "config.json").read_text())
    assert config["rule"] == "dim:log"
    assert json.loads((run.path / "start" / "model" / "config.json").read_text())["rule"] == "plain"


def test_a_run_that_was_stopped_while_it_wrote_goes_on(
    done, small, tmp_path, monkeypatch, untrainable
):
    run, _ = done
    changes = "decoding.beams=2"
    wanted = small("newsroom/dim", changes)
    with (
        monkeypatch.context() as broken,
        steps.prepared(wanted, tmp_path, run.start, print) as begun,
    ):
        steps.borrow(begun, run)
        broken.setattr(steps, "decode", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            steps.generate(begun, print)
    assert not job.find(tmp_path).done("generate")
    again = steps.run(wanted, tmp_path, run.start)
    assert len(again.outputs) == 6
    assert again.record["stages"]["train"]["same_as"]


def test_a_model_is_borrowed_only_where_the_training_was_the_same(done, small, tmp_path):
    run, _ = done
    with steps.prepared(
        small("newsroom/dim", "training.learning_rate=0.1"), tmp_path, run.start, print
    ) as other:
        steps.borrow(other, run)
        assert not other.done("train")


def test_a_folder_of_another_recipe_is_refused_before_anything_is_trained(
    done, small, tmp_path, untrainable
):
    with job.opened(tmp_path, small("newsroom/dim"), tmp_path / "start"):
        pass
    with pytest.raises(ValueError, match=r"training.steps is 2 there and 3 here"):
        steps.run(small("newsroom/dim", "training.steps=3"), tmp_path)
    assert not (tmp_path / "start").exists()


def test_starts_without_a_folder_of_their_own_are_shared(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("newsroom/dim", "newsroom/cov"):
        with steps.prepared(small(name), None, None, print) as run:
            assert str(run.path) == f"runs/{name}"
        start = job.find(run.path).start
        assert str(start) == "runs/newsroom/base"
        made = times(start)
    assert times(start) == made
    assert job.find(start).done("train")


def test_without_training_the_model_of_the_start_is_used_with_this_rule(done, small, tmp_path):
    run, _ = done
    one = steps.run(small("newsroom/plain", "training=null"), tmp_path / "a", run.start)
    begun = steps.run(run.recipe.start, run.start)
    assert one.outputs.items == begun.outputs.items
    assert not one.model.exists()
    assert one.start == run.start


def test_lead_3_is_the_lead(tmp_path, small):
    from dwindle.runs import recipe

    run = steps.run(recipe.read("newsroom/lead-3", ["data.size.test=3"]), tmp_path)
    for item in run.outputs.items:
        assert item.hypothesis == "\n".join(item.source.split("\n")[:3])
        assert item.extra["gold"]["world"] == "newsroom"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        RuntimeError("I/O error: No space left on device (28)"),
    ],
)
def test_a_full_disk_is_one_sentence(error, tmp_path, small, monkeypatch):
    def full(*_):
        raise error

    monkeypatch.setattr(steps, "fit", full)
    with pytest.raises(
        OSError,
        match=r"the disk is full while writing .*: free some space and continue with the same",
    ):
        steps.run(small("newsroom/base"), tmp_path)
    assert not job.find(tmp_path).done("train")


def test_steps_out_of_order_say_what_is_missing(small, tmp_path):
    with job.opened(tmp_path, small("newsroom/base"), None) as run:
        with pytest.raises(ValueError, match="is not trained: type dwindle train"):
            steps.generate(run, print)
        with pytest.raises(ValueError, match="has no outputs yet: type dwindle generate"):
            steps.score_outputs(run, print)


def copy(run, folder):
    shutil.copytree(run.path, folder)
    return folder


def test_outputs_that_are_gone_are_written_and_scored_again(done, tmp_path, untrainable):
    run, _ = done
    folder = copy(run, tmp_path / "run")
    before = (folder / "outputs.jsonl").read_text()
    (folder / "outputs.jsonl").unlink()
    whole.write_json(folder / "scores.json", {"items": 6, "outputs": "old", "scores": []})
    again = steps.run(run.recipe, folder)
    assert (folder / "outputs.jsonl").read_text() == before
    assert again.scores == run.scores


def test_scores_of_other_outputs_are_made_again(done, tmp_path, untrainable):
    run, _ = done
    folder = copy(run, tmp_path / "run")
    outputs.write(
        folder / "outputs.jsonl", [replace(item, hypothesis="x") for item in run.outputs.items]
    )
    again = steps.run(run.recipe, folder)
    assert {s["value"] for s in again.scores.records if s["metric"] == "rouge1"} == {0.0}


def test_a_damaged_summary_is_one_sentence(done, tmp_path):
    run, _ = done
    folder = copy(run, tmp_path / "run")
    (folder / "outputs.jsonl").unlink()
    (folder / "decoding.json").write_text("{}")
    outputs.write(folder / "outputs.jsonl", run.outputs.items)
    record = run.record
    del record["stages"]["generate"]
    whole.write_json(folder / "run.json", record)
    with pytest.raises(
        ValueError, match=r"decoding.json is not the summary of a decoding: delete it"
    ):
        steps.run(run.recipe, folder)


@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_fault_in_any_split_is_found_before_anything_is_trained(
    split, small, tmp_path, untrainable
):
    for name in ("train", "dev", "test"):
        lines = [json.dumps({"source": "a b c", "target": "a"})] * 6
        if name == split:
            lines[3] = json.dumps({"source": " ", "target": "a"})
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    wanted = small(
        "newsroom/dim", "data.corpus=jsonl", f"data.path={tmp_path}", "start.data.corpus=jsonl"
    )
    with pytest.raises(
        ValueError, match=rf"{split}.jsonl, line 4 has an empty source or reference"
    ):
        steps.run(wanted, tmp_path / "run")


def test_a_metric_that_does_not_exist_is_found_before_anything_is_trained(
    small, tmp_path, untrainable
):
    with pytest.raises(ValueError, match="rogue"):
        steps.run(small("newsroom/dim", "metrics=[rogue]"), tmp_path / "run")


def test_an_image_of_another_width_is_found_before_anything_is_trained(tmp_path, untrainable):
    from dwindle.runs import recipe

    (tmp_path / "features").mkdir()
    for split, width in (("train", 4), ("dev", 4), ("test", 5)):
        np.save(tmp_path / "features" / f"{split}.npy", np.zeros((3, width), np.float32))
        (tmp_path / f"{split}.json").write_text(json.dumps({split: "A cat ."}))
    changes = ["data.corpus=features", f"data.path={tmp_path}", "data.size={}", "model.size=tiny"]
    with pytest.raises(
        ValueError, match=r"test.npy has features of width 5, but the model reads 4"
    ):
        steps.run(recipe.read("scenes/base", changes), tmp_path / "run")
