"""What a rule while decoding costs a beam search: CPU time of the same search without it,
interleaved.

    python benchmarks/decoding_rule.py RUN --items 32 --rounds 7

RUN is the folder of a trained run, such as the plain arm of an arena. Its test sources are decoded
by its own settings, with a rule and copying by the diminished weights, and twice without: the
control. Every output is made as long, so that all searches take the same number of steps.
"""

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path

import torch

from dwindle.generation.generate import prepared, search
from dwindle.models import build
from dwindle.runs import job

STEPS = 60

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("run", type=Path)
parser.add_argument("--items", type=int, default=32)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--rule", default="dim:boxcox(-1)")


def main() -> None:
    given = parser.parse_args()
    torch.set_num_threads(1)
    run = job.find(given.run)
    model, codec = build.load(run.model)
    examples = list(run.examples(run.recipe.split))[: given.items]
    plain = replace(
        run.recipe.decoding, rule=None, copy=None, min_length=STEPS - 1, max_length=STEPS
    )
    contenders = {
        "without": plain,
        "without again (control)": plain,
        f"{given.rule}": replace(plain, rule=given.rule),
        f"{given.rule}, copying so": replace(plain, rule=given.rule, copy="renormalised"),
    }
    batch = codec.collate([codec.encode(example.input) for example in examples])
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(given.rounds):
        for name, settings in contenders.items():
            with prepared(model, settings):
                began = time.process_time()
                search(model, batch, settings, codec)
                spent[name].append((time.process_time() - began) / STEPS)
    base = statistics.median(spent["without"])
    size = (
        f"{given.items} sources, {plain.beams} beams, {STEPS} steps, {given.rounds} rounds, one "
        "thread"
    )
    print(f"{size}; CPU ms a step")
    for name, times in spent.items():
        middle = statistics.median(times)
        print(f"{name:40} {1000 * middle:8.2f}  x {middle / base:.3f}")


if __name__ == "__main__":
    main()
