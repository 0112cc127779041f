"""A tiny lesson: made examples, tiny models, and one way to train them here or in another
process."""

from dataclasses import replace
from pathlib import Path

import torch

from dwindle.data.example import Example
from dwindle.models.build import build
from dwindle.models.settings import ModelSettings
from dwindle.training.settings import TrainingSettings
from dwindle.training.train import train

ANIMALS = ("cat", "dog", "cow", "hen", "fox")
EXAMPLES = [
    Example(
        id=f"e{i}",
        source=f"the {ANIMALS[i % 5]} sat on mat {i % 7} .\nthen it {'slept ' * (1 + i % 3)}.",
        # of different lengths
        references=(f"{ANIMALS[i % 5]} on mat {i % 7} .\n{'slept ' * (1 + i % 3)}.",),
    )
    for i in range(27)
]
DEV = EXAMPLES[:6]
MODELS = {
    "transformer": ModelSettings(
        kind="transformer",
        size="tiny",
        vocabulary=320,
        source_length=40,
        target_length=20,
        rule="dim:log",
    ),
    "pointer-generator": ModelSettings(
        kind="pointer-generator",
        size="tiny",
        vocabulary=20,
        source_length=40,
        target_length=20,
        rule="dim:log",
    ),
}
SETTINGS = {
    "transformer": TrainingSettings(
        steps=10,
        batch_size=8,
        learning_rate=2e-3,
        schedule="inverse-sqrt",
        warmup=3,
        label_smoothing=0.1,
        clip=1.0,
        save_every=4,
        log_every=2,
        eval_every=5,
    ),
    "pointer-generator": TrainingSettings(
        steps=10,
        batch_size=8,
        optimiser="adagrad",
        learning_rate=0.15,
        clip=2.0,
        save_every=4,
        log_every=2,
    ),
}


def made(lesson: str, calm: bool = False, **changes):
    """A tiny model of a lesson and its codec; ``calm``: without dropout, which differs between
    processes."""
    calmed = {"dropout": 0.0} if calm and lesson == "transformer" else {}
    settings = replace(MODELS[lesson], **calmed, **changes)
    return build(settings, lambda: ((e.source, e.target) for e in EXAMPLES), seed=1)


def taught(kind: str, folder: Path, calm: bool = False, **changes) -> dict[str, torch.Tensor]:
    """The weights after the lesson."""
    model, codec = made(kind, calm)
    train(model, codec, EXAMPLES, DEV, replace(SETTINGS[kind], **changes), folder, seed=5)
    return {name: x.clone() for name, x in model.state_dict().items()}
