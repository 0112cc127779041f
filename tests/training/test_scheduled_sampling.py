"""Scheduled sampling: its chance epoch by epoch, and what it trains on."""

from dataclasses import replace

import pytest
import torch

from dwindle.training.settings import TrainingSettings
from dwindle.training.trainer import Fit
from tests.training.critical import lesson, trainer

SETTINGS = TrainingSettings(epochs=1, batch_size=4, scheduled_sampling=0.25)


@pytest.fixture
def fit(tmp_path):
    made = trainer(tmp_path / "other")
    return Fit(made.model, made.codec, lesson(), [], SETTINGS, tmp_path, 1)


def test_the_chance_grows_every_five_epochs_to_its_greatest(fit):
    """As the baseline: nothing before epoch 5, then 0.05 more every 5, up to 0.25."""
    chances = {}
    for epoch in (0, 4, 5, 9, 10, 25, 29, 60):
        fit.order.epoch = epoch
        chances[epoch] = fit.own_words
    assert chances == pytest.approx(
        {0: 0, 4: 0, 5: 0.05, 9: 0.05, 10: 0.1, 25: 0.25, 29: 0.25, 60: 0.25}
    )


def test_the_model_reads_its_own_words_in_training_only(fit):
    batch = fit.collate([fit.row(e) for e in lesson(4)])
    fit.order.epoch = 25
    plain = fit.model.eval()(**batch).loss
    assert torch.equal(fit.loss(fit.model.eval(), dict(batch)), plain)
    fit.model.train()  # without dropout
    torch.manual_seed(0)
    losses = {fit.loss(fit.model, dict(batch)).item() for _ in range(3)}
    assert len(losses) > 1
    fit.order.epoch = 0
    torch.testing.assert_close(fit.loss(fit.model, dict(batch)), plain)
    fit.train()


def test_it_is_not_for_self_critical_training():
    with pytest.raises(ValueError, match="draws all words anyway"):
        replace(SETTINGS, objective="self-critical")
