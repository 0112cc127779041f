"""Two real processes that share each batch end with the weights of one that has it all. Started as users do."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lesson import MODELS, taught

import dwindle

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no gloo, which carries two processes on a CPU",
)
# Adagrad, for Adam blows the noise of a gradient that is zero (the bias of keys) up to a whole step.
LESSON = {"calm": True, "steps": 5, "accumulate": 2, "optimiser": "adagrad", "learning_rate": 0.05}
STARTERS = {
    "torchrun": ["torch.distributed.run", "--nproc_per_node", "2", "--master_port"],
    "accelerate": ["accelerate.commands.launch", "--cpu", "--num_processes", "2", "--main_process_port"],
}


def worker(folder: Path) -> None:
    """One of the two. Stopped after three steps, it goes on in the middle of an epoch."""
    for kind in MODELS:
        if kind == "transformer":
            taught(kind, folder / kind, **{**LESSON, "steps": 3})
        weights = taught(kind, folder / kind, **LESSON)
        if os.environ["RANK"] == "0":
            torch.save(weights, folder / f"{kind}.pt")


if __name__ == "__main__":
    worker(Path(sys.argv[1]))


def started(starter: str, port: int, script: list[str]) -> list[subprocess.Popen[str]]:
    """The processes to wait for: the two themselves, or the one that starts them."""
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(dwindle.__file__).parents[1])])
    common = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command, each = [sys.executable, *script], [{}]
    if starter == "by hand":
        meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        each = [{**meet, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
    else:
        command = [sys.executable, "-m", *STARTERS[starter], str(port), *script]
    return [subprocess.Popen(command, env={**common, **own}, stderr=subprocess.PIPE, text=True) for own in each]


@pytest.fixture(scope="module", params=["by hand", *(pytest.param(s, marks=pytest.mark.slow) for s in STARTERS)])
def folder(request, tmp_path_factory) -> Path:
    """Where two processes have left their weights."""
    folder = tmp_path_factory.mktemp("two")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = started(request.param, port, [__file__, str(folder)])
    try:
        said = [process.communicate(timeout=300)[1] for process in running]
    finally:
        for process in running:
            process.kill()
    assert not any(process.returncode for process in running), "\n".join(said)
    return folder


@pytest.mark.parametrize("kind", MODELS)
def test_two_processes(kind, folder, tmp_path):
    two, one = torch.load(folder / f"{kind}.pt"), taught(kind, tmp_path, **LESSON)
    assert two.keys() == one.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=0, atol=2e-6, msg=name)
