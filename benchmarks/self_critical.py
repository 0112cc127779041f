"""What a step of self-critical training spends on rewards: python benchmarks/self_critical.py
[--base]

Small: the sizes of the recipes on scenes. --base: the published ones (512 units, 36 regions of
2048, 5,000 words, paragraphs of up to 175), where an untrained model writes paragraphs of full
length. Processor time of one core, so that other work on the machine counts little; texts are made.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from dwindle.data.example import Example
from dwindle.models.build import build
from dwindle.models.settings import ModelSettings
from dwindle.training.self_critical import SelfCritical
from dwindle.training.settings import TrainingSettings


class Image(Example):
    """An example whose features are an array in memory."""

    @property
    def input(self):
        return self.image


def examples(count: int, words: int, length: int, regions: int, width: int) -> list[Image]:
    chance = np.random.default_rng(0)
    often = 1 / np.arange(1, words + 1)  # Zipf
    texts = chance.choice([f"w{i}" for i in range(words)], (count, length), p=often / often.sum())
    features = chance.normal(size=(8, regions, width)).astype(np.float32)
    return [
        Image(str(i), str(i), (" ".join(text),), image=features[i % 8])
        for i, text in enumerate(texts)
    ]


class Timed(SelfCritical):
    spent = 0.0

    def rewards(self, *given):
        start = time.process_time()
        found = super().rewards(*given)
        self.spent += time.process_time() - start
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", action="store_true", help="the published sizes")
    parser.add_argument("--steps", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.base:
        made = examples(2000, 5000, 70, 36, 2048)
        wanted = ModelSettings(
            "top-down", size="base", vocabulary=5000, source_length=100, target_length=175
        )
        batch = 30
    else:
        made = examples(500, 70, 36, 15, 128)
        wanted = ModelSettings(
            "top-down", size="small", vocabulary=200, source_length=100, target_length=80
        )
        batch = 20
    model, codec = build(wanted, lambda: ((e.input, e.target) for e in made), 1)
    settings = TrainingSettings(
        steps=asked.steps, batch_size=batch, objective="self-critical", soft_trigrams=2.0
    )
    fit = Timed(model, codec, made, [], settings, Path(tempfile.mkdtemp()), 1)
    start = time.process_time()
    fit.train()
    whole = time.process_time() - start
    each, share = whole / asked.steps, fit.spent / whole
    print(
        f"batch {batch}, one core: {each:.2f} s a step, {fit.spent / asked.steps:.3f} s of it "
        f"rewards: {share:.1%}"
    )


if __name__ == "__main__":
    main()
