"""A run that is killed at any moment, and goes on: the same bytes as one that was left alone."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

RECIPE = """
about: soak
data: {corpus: newsroom, size: {train: 40, dev: 4, test: 8}, seed: 1}
model: {kind: pointer-generator, vocabulary: 300, size: tiny, source_length: 60, target_length: 20,
rule: "dim:log"}
training: {steps: 12, batch_size: 4, save_every: 3, learning_rate: 0.15}
decoding: {beams: 2, max_length: 12, batch_size: 2}
metrics: [rouge, repetition]
"""
SAME = ("outputs.jsonl", "coverage.npz", "scores.json")
COMMAND = [sys.executable, "-m", "dwindle.cli.main"]


def trial(random: Random, folder: Path) -> int:
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE, encoding="utf-8")
    start = time.monotonic()
    whole(recipe, folder / "alone")
    needed = time.monotonic() - start
    kills = 0
    for _ in range(random.randint(1, 4)):
        process = subprocess.Popen(
            command(recipe, folder / "killed"), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        try:
            process.wait(random.uniform(0.3, 1) * needed)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
    whole(recipe, folder / "killed")
    digests = [[digest(folder / one / name) for name in SAME] for one in ("alone", "killed")]
    assert digests[0] == digests[1], f"another result after {kills} kills"
    return len(SAME)


def command(recipe: Path, out: Path) -> list[str]:
    return [*COMMAND, "run", str(recipe), "--out", str(out)]


def whole(recipe: Path, out: Path) -> None:
    done = subprocess.run(command(recipe, out), capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr[-2000:]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
