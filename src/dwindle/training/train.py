"""``train``: trains a model on examples, and resumes where it was stopped."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import PreTrainedModel

from dwindle.attaching.carrier import Carrier
from dwindle.data.example import Example
from dwindle.generation.settings import DecodingSettings
from dwindle.models.codec import Codec
from dwindle.models.top_down import TopDown
from dwindle.training.checkpoints import check_same, checkpoints, drop_damaged, last_step
from dwindle.training.settings import TrainingSettings
from dwindle.training.trainer import Fit

if TYPE_CHECKING:
    from dwindle.training.selection import Choosing


def train(
    model: PreTrainedModel,
    codec: Codec,
    train: Sequence[Example],
    dev: Sequence[Example],
    settings: TrainingSettings,
    folder: Path,
    seed: int,
    decoding: DecodingSettings | None = None,
) -> int:
    """Train ``model`` in place. Checkpoints go to ``folder/checkpoints``, from where the same call
    goes on after it was stopped; curves for TensorBoard go to ``folder/logs``.

    ``seed`` draws dropout and the order of the examples. ``decoding`` is how dev is written, where
    the model is chosen by what it writes. Started by ``torchrun`` or ``accelerate launch``,
    processes share each batch.

    Returns:
        How many training sources were cut to the model's length.
    """
    _check(model, settings)
    if settings.eval_every is not None and not dev:
        raise ValueError(
            f"eval_every={settings.eval_every}, but there are no dev examples: name some, or "
            "leave it out"
        )
    if settings.coverage_loss is not None:
        model.config.coverage_loss = settings.coverage_loss
    fit = _trainer(settings)(model, codec, train, dev, settings, folder, seed)
    chooser = _chooser(settings, codec, dev, decoding, folder)
    if chooser:
        fit.add_callback(chooser)
    if fit.is_world_process_zero():
        drop_damaged(fit.home)
    fit.accelerator.wait_for_everyone()
    check_same(fit.home, fit.made_of)
    found = checkpoints(fit.home)
    try:
        # stopped after the last step, before the model was saved
        if last_step(fit.home) >= fit.last_step:
            fit.restore(found[-1])
        else:
            fit.train(resume_from_checkpoint=str(found[-1]) if found else None)
    except KeyboardInterrupt:
        step = last_step(fit.home)
        print(
            f"stopped at step {fit.state.global_step}: the same command goes on from step {step}",
            file=sys.stderr,
        )
        raise
    if settings.average > 1:
        fit.average()
    if chooser:
        fit.accelerator.wait_for_everyone()  # for the first process to have chosen
        fit.restore(chooser.chosen())
    model.eval()
    return fit.cut


def _chooser(
    settings: TrainingSettings,
    codec: Codec,
    dev: Sequence[Example],
    decoding: DecodingSettings | None,
    folder: Path,
) -> "Choosing | None":
    if settings.choose is None:
        return None
    from dwindle.training.selection import Choosing  # needs the metrics

    return Choosing(settings.choose, codec, dev, decoding or DecodingSettings(), folder)


def _trainer(settings: TrainingSettings) -> type[Fit]:
    if settings.objective == "self-critical":
        from dwindle.training.self_critical import SelfCritical  # needs the metrics

        return SelfCritical
    return Fit


def _check(model: PreTrainedModel, settings: TrainingSettings) -> None:
    """Refuse settings with which this model cannot be trained."""
    if settings.label_smoothing and isinstance(model, Carrier):
        raise ValueError(
            f"{type(model).__name__} has its own loss, without label smoothing: leave "
            "label_smoothing out"
        )
    if settings.gradient_checkpointing and not model.supports_gradient_checkpointing:
        raise ValueError(
            f"{type(model).__name__} does not support gradient checkpointing: leave "
            "gradient_checkpointing out"
        )
    if settings.scheduled_sampling and not isinstance(model, TopDown):
        raise ValueError(
            f"scheduled_sampling is for a top-down captioner, not for a {type(model).__name__}: "
            "leave it out"
        )
    if settings.fp16 and not torch.accelerator.is_available():
        raise ValueError(
            "fp16 is for GPUs, and there is none here: set training.fp16=false, or "
            "training.bf16=true"
        )
    if settings.coverage_loss is not None and not getattr(model.config, "coverage", False):
        raise ValueError(
            "coverage_loss is for a pointer-generator with coverage: set coverage: true, or leave "
            "it out"
        )
