"""Plans say what a recipe would do; smoke tests do it with three updates and three items."""

import json

import pytest

from dwindle.models.build import build
from dwindle.models.settings import ModelSettings
from dwindle.models.size import parameters
from dwindle.runfiles import names
from dwindle.runs import recipe, steps
from dwindle.runs.plan import plan
from dwindle.runs.smoke import shortened, smoke
from tests.models.library_kit import PAIRS


def told(found):
    return [f"{what}: {sentence}" for what, sentence in found.rows()]


def test_a_plan_counts_what_a_run_would_do(small, tmp_path):
    wanted = small("newsroom/dim", "training.steps=6")
    found = plan(wanted, tmp_path / "run")
    start, last = found.stages
    assert (start.updates, last.updates, last.examples) == (2, 6, 24)
    assert last.corpus.counts == {"train": 24, "dev": 4, "test": 6}
    lines = told(found)
    assert lines[0] == "read: newsroom: train 24, dev 4, test 6 examples"
    assert lines[1].startswith(
        "train: newsroom/base: 2 updates of 4 examples (0.3 epochs; about 320 words of sources"
    )
    assert lines[2].startswith("train: newsroom/dim: 6 updates of 4 examples (1.0 epochs")
    assert lines[3].startswith(
        "decode: 6 test items, 4 beams, up to 12 tokens each; metrics: rouge"
    )
    assert lines[4].startswith("memory: at least ")
    assert lines[5].startswith("disk: up to ")
    assert not (tmp_path / "run").exists()


def test_a_plan_knows_what_is_done(small, tmp_path):
    wanted = small("newsroom/dim")
    with steps.prepared(wanted, tmp_path, None, lambda sentence: None):
        pass
    lines = told(plan(wanted, tmp_path))
    assert lines[1] == f"train: newsroom/base: done already, in {tmp_path / 'start'}"
    assert lines[2].startswith("train: newsroom/dim: 2 updates")


def test_a_plan_fetches_nothing(monkeypatch):
    monkeypatch.setattr("dwindle.data.hub.open", lambda *a: pytest.fail("fetched"))
    lines = told(plan(recipe.read("cnndm/bart-dim")))
    assert (
        lines[0]
        == "fetch: the data set abisee/cnn_dailymail from the hub, if it is not in its cache"
    )
    assert lines[1].startswith("fetch: the checkpoint facebook/bart-large")
    assert any(line.startswith("memory: known when the checkpoint was fetched") for line in lines)


@pytest.mark.parametrize("kind", ["pointer-generator", "transformer", "bart", "bertsum"])
def test_parameters_are_those_of_the_model(kind, tmp_path):
    settings = ModelSettings(
        kind=kind, size="tiny", vocabulary=290, source_length=40, target_length=20
    )
    model, codec = build(settings, lambda: iter(PAIRS * 20), 1)
    size = len(codec.vocabulary) if kind == "pointer-generator" else len(codec.tokenizer)
    assert (
        parameters(ModelSettings(**{**vars(settings), "vocabulary": size}))
        == model.num_parameters()
    )
    model.save_pretrained(tmp_path)
    saved = parameters(ModelSettings(kind=kind, start=str(tmp_path)))
    # sinusoids may be saved, tied weights are saved once
    assert 0 < saved <= model.num_parameters() + 20_000
    assert parameters(ModelSettings(kind=kind, start="some/name")) is None


def test_smoke_runs_everything_in_a_folder_of_its_own(small, tmp_path):
    wanted = small("newsroom/dim", "training.steps=500", "start.training.steps=700")
    said: list[str] = []
    for _ in range(2):  # an earlier one is replaced
        done = smoke(wanted, tmp_path / "smoke", said.append)
        assert done.scores.items == 3
        assert {"train", "generate"} <= done.record["stages"].keys()
    start = json.loads((tmp_path / "smoke" / names.START / names.RECORD).read_text())
    assert start["stages"]["train"]["examples"] == 24
    assert "all steps work; this process held" in said[-1]


def test_smoke_leaves_real_runs_alone(small, tmp_path):
    wanted = small("newsroom/base")
    steps.run(wanted, tmp_path)
    with pytest.raises(ValueError, match="is the run of another recipe"):
        smoke(wanted, tmp_path, print)


def test_what_is_shortened():
    short = shortened(recipe.read("ids-ade/sc-dim"))
    for one in (short, short.start, short.start.start):
        assert (one.training.steps, one.data.size.dev, one.data.size.test) == (3, 3, 3)
    assert short.training.objective == "self-critical"
    assert shortened(recipe.read("newsroom/lead-3")).training is None
