"""Self-critical training on two processes that share each batch; run as a program, it forks them.

What is drawn is a function of the image here, for two processes would draw other paragraphs than
one.
"""

import os
import socket
import sys
from pathlib import Path

import numpy as np
import torch

from dwindle.data.example import Example
from dwindle.models.build import build
from dwindle.models.settings import ModelSettings
from dwindle.models.vocabulary import END, PAD, START
from dwindle.training.self_critical import SelfCritical
from dwindle.training.settings import TrainingSettings

KINDS = ("cat", "dog", "cow", "hen")
# Adagrad, for Adam blows the noise of a gradient that is zero up to a whole step.
SETTINGS = TrainingSettings(
    steps=3,
    batch_size=4,
    accumulate=2,
    objective="self-critical",
    optimiser="adagrad",
    learning_rate=0.05,
)


class Image(Example):
    """An example whose image is an array in memory."""

    @property
    def input(self):
        return self.image


def lesson(count=16):
    """The kind of an image is in its region 0 or 1."""
    made = []
    for i in range(count):
        features = np.zeros((2 + i % 3, 4), dtype=np.float32)
        features[i % 2, i % 4] = 1.0
        text = f"a {KINDS[i % 4]} sits here .\nit sees a {KINDS[i % 4]} ."
        made.append(Image(f"e{i}", f"e{i}", (text,), image=features))
    return made


def trainer(
    folder, rule="dim:log(1.9)", settings=SETTINGS, examples=None, dropout=0.0, target_length=12
):
    """With a tiny model, its weights wide."""
    examples = examples or lesson()
    wanted = ModelSettings(
        kind="top-down", size="tiny", dropout=dropout, target_length=target_length, rule=rule
    )
    model, codec = build(wanted, lambda: ((e.input, e.target) for e in examples), seed=1)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3)
    return SelfCritical(model, codec, examples, examples[:4], settings, folder, 1)


def given(batch, sample):
    """As many words as the image has regions, or one; then the end: another number of words on each
    process."""
    rows = []
    for mask in batch["attention_mask"]:
        count = int(mask.sum()) if sample else 1
        rows.append([START, *range(4, 4 + count), END, *[PAD] * (5 - count)])
    return torch.tensor(rows)


def taught(folder):
    fit = trainer(folder)
    fit.drawn = lambda batch, seed: given(batch, sample=True)
    fit.greedy = lambda batch: given(batch, sample=False)
    fit.train()
    return fit.model.state_dict()


def main(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ.update(
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]), WORLD_SIZE="2"
        )
    children = []
    for rank in "01":
        if (child := os.fork()) == 0:
            os.environ.update(RANK=rank, LOCAL_RANK=rank)
            weights = taught(folder / "two")
            if rank == "0":
                torch.save(weights, folder / "two.pt")
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
