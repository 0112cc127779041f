"""The best weights on dev: by the loss, by what is written, and after a stop."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from dwindle.generation.settings import DecodingSettings
from dwindle.training.selection import Choosing
from dwindle.training.train import train
from dwindle.training.trainer import Fit
from tests.training.lesson import DEV, EXAMPLES, SETTINGS, made

OFTEN = {"steps": 6, "eval_every": 2, "save_every": 2, "schedule": "constant"}


def taught(folder, **changes):
    model, codec = made("transformer", calm=True)
    settings = replace(SETTINGS["transformer"], **{**OFTEN, **changes})
    train(
        model,
        codec,
        EXAMPLES,
        DEV,
        settings,
        folder,
        5,
        DecodingSettings(beams=1, max_length=6, batch_size=4),
    )
    return model, json.loads((folder / "choice.json").read_text())


def test_by_the_loss(tmp_path, monkeypatch):
    """The losses are given: the second evaluation is the best, and the model is what it was
    then."""
    losses = iter([3.0, 1.0, 2.0])
    original = Choosing.on_evaluate
    monkeypatch.setattr(
        Choosing,
        "on_evaluate",
        lambda self, a, s, c, **k: original(self, a, s, c, **k | {"metrics": lost(losses)}),
    )
    model, choice = taught(tmp_path, choose="loss")
    assert choice == {
        "by": "loss",
        "chosen": 4,
        "tries": [{"step": n, "value": x} for n, x in ((2, 3.0), (4, 1.0), (6, 2.0))],
    }
    saved = load_file(tmp_path / "checkpoints" / "checkpoint-4" / "model.safetensors")
    assert all(torch.equal(model.state_dict()[name], weight) for name, weight in saved.items())
    last = load_file(tmp_path / "checkpoints" / "checkpoint-6" / "model.safetensors")
    assert any(not torch.equal(model.state_dict()[name], weight) for name, weight in last.items())
    assert [path.name for path in (tmp_path / "checkpoints").glob("best-*")] == ["best-4"]


def lost(losses):
    return {"eval_loss": next(losses)}


def test_by_what_is_written_and_lower_may_be_better(tmp_path, monkeypatch):
    values = iter([5.0, 7.0, 6.0, 5.0, 7.0, 6.0])
    monkeypatch.setattr(Choosing, "measured", lambda self, model, metric: next(values))
    assert taught(tmp_path / "a", choose="rouge1")[1]["chosen"] == 4
    assert taught(tmp_path / "b", choose="repetition3")[1]["chosen"] == 2


def test_the_metric_is_that_of_the_outputs(tmp_path):
    _, choice = taught(tmp_path, choose="rouge1", steps=2)
    (one,) = choice["tries"]
    assert 0 <= one["value"] <= 100


def test_a_run_that_was_stopped_chooses_the_same(tmp_path, monkeypatch):
    whole, choice = taught(tmp_path / "whole", choose="rouge1")
    original = Fit.training_step

    def stopping(self, *given):
        if self.state.global_step == 3:
            raise KeyboardInterrupt
        return original(self, *given)

    monkeypatch.setattr(Fit, "training_step", stopping)
    with pytest.raises(KeyboardInterrupt):
        taught(tmp_path / "parts", choose="rouge1")
    monkeypatch.undo()
    again, same = taught(tmp_path / "parts", choose="rouge1")
    assert same == choice
    assert all(torch.equal(again.state_dict()[name], x) for name, x in whole.state_dict().items())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"choose": "rouge"}, "is 3 metrics: choose by one of rouge1, rouge2, rougeL"),
        ({"choose": "length"}, "neither higher nor lower is better"),
        ({"choose": "bleurt"}, "no metric is called"),
        ({"choose": "loss", "eval_every": None}, "pass eval_every"),
        ({"choose": "loss", "average": 3}, "leave average out"),
    ],
)
def test_refused(changes, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        taught(tmp_path, **changes)
