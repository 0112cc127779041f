"""Corpus files that change between a kill and the next start: refused in a sentence; as they were,
the same bytes."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from random import Random

from dwindle.training.checkpoints import WRITING
from tests.soak.damage import run
from tests.soak.kills import SAME, command, digest, environment, whole

RECIPE = """
about: soak
data: {{corpus: jsonl, path: {path}, size: {{train: 40, dev: 4, test: 8}}}}
model: {{kind: pointer-generator, vocabulary: 60, size: tiny, source_length: 30, target_length: 12,
rule: "dim:log"}}
training: {{steps: 200, batch_size: 4, save_every: 2, learning_rate: 0.15}}
decoding: {{beams: 2, max_length: 8, batch_size: 2}}
metrics: [rouge, repetition]
"""
WORDS = [
    "the",
    "mayor",
    "closed",
    "bridge",
    "ferry",
    "went",
    "child",
    "river",
    "town",
    "clerk",
    "opened",
    "road",
]


def trial(random: Random, folder: Path) -> int:
    corpus, recipe = folder / "corpus", folder / "recipe.yaml"
    _write(random, corpus)
    recipe.write_text(RECIPE.format(path=corpus), encoding="utf-8")
    _killed(recipe, folder / "killed")
    shutil.copytree(corpus, folder / "kept")
    changed = _change(random, corpus)
    code, complaint = run(command(recipe, folder / "killed")[3:])
    assert code == 2, f"{changed}: code {code}: {complaint[-500:]}"
    assert "dwindle: " in complaint, complaint
    assert "Traceback" not in complaint
    shutil.rmtree(corpus)
    shutil.copytree(folder / "kept", corpus)
    for out in ("killed", "alone"):
        whole(recipe, folder / out)
    for name in SAME:
        assert digest(folder / "killed" / name) == digest(folder / "alone" / name), (
            f"{changed}: another {name}"
        )
    return 3 + len(SAME)


def _write(random: Random, corpus: Path) -> None:
    corpus.mkdir()
    for split, count in (("train", 40), ("dev", 4), ("test", 8)):
        pairs = [[" ".join(random.choices(WORDS, k=n)) for n in (12, 5)] for _ in range(count)]
        rows = [
            json.dumps({"id": str(i), "source": s, "target": t}) + "\n"
            for i, (s, t) in enumerate(pairs)
        ]
        (corpus / f"{split}.jsonl").write_text("".join(rows), encoding="utf-8")


def _killed(recipe: Path, out: Path) -> None:
    """A run that is killed when it has its first checkpoint."""
    silent = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    process = subprocess.Popen(command(recipe, out), env=environment(), **silent)
    while process.poll() is None and all(
        p.parent.name == WRITING for p in out.rglob("checkpoint-*")
    ):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL, "the run had ended before it could be killed"


def _change(random: Random, corpus: Path) -> str:
    """Other training texts, of the same length and date half of the time."""
    file = corpus / "train.jsonl"
    stat, text = file.stat(), file.read_text(encoding="utf-8")
    how = random.choice(["a word", "an item less", "another order", "same size and date"])
    lines = text.splitlines(keepends=True)
    if how == "a word":
        text = text.replace("ferry", "barge", random.randint(1, 3))
    elif how == "an item less":
        text = "".join(lines[:-1])
    elif how == "another order":
        text = "".join(reversed(lines))
    else:
        text = text.replace("mayor", "mayer")
    file.write_text(text, encoding="utf-8")
    if how == "same size and date":
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return how
