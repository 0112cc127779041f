"""Damaged checkpoints, archives and features in a process that has little memory: imported, or one
sentence.

Files of the tests' own writers are changed: bytes, lengths, opcodes, cut ends, parts of other
files; then they are read by ``tests.checkpoints.bombs`` with twice their size and 200 MB.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import torch

from tests.checkpoints import (
    test_fairseq_bart,
    test_fairseq_transformer,
    test_presumm,
    test_see,
    test_top_down,
)
from tests.checkpoints.kit import python2

CASES = 15
WRITERS = {
    "transformer": test_fairseq_transformer.write,
    "bart": test_fairseq_bart.write,
    "presumm": test_presumm.write,
    "see": lambda folder: test_see.write(folder, "tensorflow"),
    "see-pytorch": lambda folder: test_see.write(folder, "pytorch"),
    "top-down": test_top_down.write,
}
NUMBERS = [0, 1, 127, 128, 255, 2**15, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1]


def trial(random: Random, folder: Path) -> int:
    good, hurt = folder / "good", folder / "hurt"
    for name, write in WRITERS.items():
        (good / name).mkdir(parents=True)
        write(good / name)
    _lone(good)
    things, told = sorted(good.iterdir()), {}
    hurt.mkdir()
    for number in range(CASES):
        thing = random.choice(things)
        place = hurt / f"{number:03d}-{thing.name}"
        (shutil.copytree if thing.is_dir() else shutil.copy)(thing, place)
        files = (
            sorted(file for file in place.rglob("*") if file.is_file())
            if place.is_dir()
            else [place]
        )
        told[place.name] = _damage(random, random.choice(files), files)
    command = [sys.executable, "-m", "tests.checkpoints.bombs", str(hurt)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    for name, how in told.items():
        found = said.get(name, f"no answer: {done.stderr[-1000:]}")
        assert found == "read" or found.startswith("refused: "), f"{name}, {how}: {found}"
        assert not any(sign in found for sign in ("memory", "allocate")), f"{name}, {how}: {found}"
    return CASES


def _lone(good: Path) -> None:
    """Files that are read without a checkpoint around them."""
    torch.save({"a": torch.arange(50.0), "b": [1, 2.5, "x"]}, good / "new.pt")
    torch.save(
        {"a": torch.arange(50.0), "b": {"c": 3}},
        good / "old.pt",
        _use_new_zipfile_serialization=False,
    )
    python2({"ids": [1, 2**40], "w": torch.arange(5.0)}, good / "python2.pt")
    np.savez_compressed(
        good / "packed.npz", feat=np.zeros((4, 300), np.float32), boxes=np.ones((4, 4))
    )
    np.savez(good / "plain.npz", feat=np.zeros((4, 30), np.float32))
    np.save(good / "one.npy", np.zeros((4, 30), np.float32))
    row = [
        "7",
        "640",
        "480",
        "2",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "AAAAAAAAAAAAAAAAAAAAAA==",
    ]
    (good / "rows.tsv").write_text("\t".join(row) + "\n")


def _damage(random: Random, file: Path, others: list[Path]) -> str:
    content = bytearray(file.read_bytes())
    size = len(content)
    how = random.choice(["cut", "bytes", "number", "number", "doubled", "spliced", "longer"])
    place = random.randrange(size) if size else 0
    if how == "cut":
        del content[place:]
    elif how == "bytes":
        for _ in range(random.choice([1, 1, 4, 30])):
            if size:
                content[random.randrange(size)] = random.randrange(256)
    elif how == "number":
        width = random.choice([1, 2, 4, 8])
        value = random.choice(NUMBERS) % 2 ** (8 * width)
        content[place : place + width] = value.to_bytes(width, random.choice(["little", "big"]))
    elif how == "doubled":
        end = min(size, place + random.choice([1, 10, 200]))
        content[place:place] = content[place:end] * random.choice([1, 100, 5000])
    elif how == "spliced":
        content[place:] = random.choice(others).read_bytes()[-(size - place) :]
    else:
        content += bytes(random.choice([1, 1000, 100_000]))
    file.write_bytes(content)
    return f"{how} at {place} of {size} in {file.name}"
