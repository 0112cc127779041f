"""What runs in processes of its own: trainings that are killed on their way, and two that share
each batch.

One process with the libraries loaded forks them all: a fork costs nothing, a start seconds.
"""

import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path

import torch

from dwindle.training.checkpoints import WRITING, last_step
from dwindle.training.trainer import Fit
from tests.training.lesson import MODELS, taught

KILLS = {  # at which step, before which method of the trainer
    "transformer": [
        (3, "_maybe_log_save_evaluate"),
        (4, "_save_rng_state"),
        (7, "training_step"),
        (8, "_save_optimizer_and_scheduler"),
        (10, "_finalize_training"),
    ],
    "pointer-generator": [(7, "training_step")],
}
# Adagrad, for Adam blows the noise of a gradient that is zero (the bias of keys) up to a whole
# step.
SHARED = {"calm": True, "steps": 5, "accumulate": 2, "optimiser": "adagrad", "learning_rate": 0.05}


def share(folder: Path) -> None:
    """What each of two processes does. Stopped after three steps, the first goes on in the middle
    of an epoch."""
    taught("transformer", folder / "transformer", **{**SHARED, "steps": 3})
    for kind in MODELS:
        weights = taught(kind, folder / kind, **SHARED)
        if os.environ["RANK"] == "0":
            torch.save(weights, folder / f"{kind}.pt")
    weights = taught("transformer", folder / "tokens", **SHARED, max_tokens=150)
    if os.environ["RANK"] == "0":
        torch.save(weights, folder / "tokens.pt")


def two(folder: Path) -> None:
    """Two processes that find each other as torchrun would have them do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    children = []
    for rank in "01":
        if (child := os.fork()) == 0:
            os.environ.update(meet, RANK=rank, LOCAL_RANK=rank)
            share(folder)
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]


def killed(kind: str, folder: Path, step: int, method: str) -> list[object]:
    """Train in a process that kills itself; then, the step to go on from, and whether something is
    half-written."""
    original = getattr(Fit, method)

    def deadly(self, *args, **kwargs):
        if self.state.global_step == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(self, *args, **kwargs)

    if (child := os.fork()) == 0:
        setattr(Fit, method, deadly)
        taught(kind, folder)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, (
        f"was not killed in {method}"
    )
    return [last_step(folder / "checkpoints"), (folder / "checkpoints" / WRITING).exists()]


def no_room(folder: Path) -> str:
    """What a process says that may not write more than 100 kB into a file, so not the weights."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            taught("transformer", folder)
        except OSError as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as said:
        return said.read()


def main(home: Path) -> None:
    two(home / "two")
    told: dict[str, object] = {"no room": no_room(home / "full")}
    for kind, kills in KILLS.items():
        told |= {
            f"{kind} {step} {method}": killed(kind, home / kind, step, method)
            for step, method in kills
        }
        torch.save(taught(kind, home / kind), home / f"{kind}.pt")
    (home / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":  # by a starter of the library's: one of the two
    share(Path(sys.argv[1]))
