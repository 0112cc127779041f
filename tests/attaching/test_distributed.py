"""Two real processes, each with half of the batch, give the loss and the gradients of one process
with all of it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import dwindle
from tests.attaching.small import RULE, bart, forget_activations, source, target

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no gloo, which carries two processes on a CPU",
)
FREE = "training-free"
LENGTHS = (9, 6, 7, 9)
CASES = [
    (how, rule, checkpointing, None)
    for how in ("ddp", "fsdp")
    for rule, checkpointing in ((RULE, False), (FREE, True))
]
# the paths that a GPU may take where its kernels step aside
CASES += [
    (how, RULE, False, backend) for how in ("ddp", "fsdp") for backend in ("chunked", "eager")
]


def alone(rule: str, checkpointing: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss and the gradients of the whole batch in this process."""
    model = prepared(rule, checkpointing)
    loss = loss_of(model, slice(None))
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters()}


def prepared(rule: str, checkpointing: bool):
    model = bart().double().train()
    dwindle.attach(model, rule, layers=2)
    if checkpointing:
        forget_activations(model, False)
    return model


def loss_of(model, items: slice) -> torch.Tensor:
    inputs = {name: x[items] for name, x in source(LENGTHS).items()}
    return model(
        **inputs, decoder_input_ids=target(batch=4)[items], labels=target(batch=4, seed=20)[items]
    ).loss


def worker(folder: Path) -> None:
    """One of two processes: each case on its half of the batch. The first process writes what came
    of it."""
    from torch import distributed

    rank = int(os.environ["RANK"])
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    for case in CASES:
        out = run(*case, rank)
        if rank == 0:
            torch.save(out, folder / f"{CASES.index(case)}.pt")
    distributed.destroy_process_group()


def run(how: str, rule: str, checkpointing: bool, backend: str | None, rank: int) -> dict[str, Any]:
    from torch import distributed
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    os.environ["DWINDLE_BACKEND"] = backend or ""
    model = prepared(rule, checkpointing)
    whole = DistributedDataParallel(model) if how == "ddp" else model
    if how == "fsdp":
        for layer in (*model.model.encoder.layers, *model.model.decoder.layers):
            fully_shard(layer)
        fully_shard(model)
    loss = loss_of(whole, slice(2 * rank, 2 * rank + 2))
    loss.backward()
    gradients = {
        n: p.grad.full_tensor() if how == "fsdp" else p.grad for n, p in model.named_parameters()
    }
    total = loss.detach().clone()
    distributed.all_reduce(total)
    if how == "fsdp":
        # generate() calls the encoder past the root, which would gather its own weights
        model.unshard()
    return {"loss": total / 2, "gradients": gradients, "tokens": generated(model.eval(), rank)}


def generated(model, rank: int) -> torch.Tensor:
    """The tokens of one half of the batch."""
    inputs = {name: x[2 * rank : 2 * rank + 2] for name, x in source(LENGTHS).items()}
    with torch.no_grad():
        return model.generate(
            **inputs, num_beams=3, max_new_tokens=8, min_new_tokens=8, do_sample=False
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where two processes have left what came of every case."""
    folder, here = tmp_path_factory.mktemp("two"), Path(__file__)
    paths = os.pathsep.join([str(here.parents[2]), str(Path(dwindle.__file__).parents[1])])
    code = f"from tests.attaching.{here.stem} import worker, Path; worker(Path({str(folder)!r}))"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "RANK": str(rank), "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=120)[1] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0], "\n".join(said)
    return folder


@pytest.mark.parametrize("case", CASES, ids=str)
def test_two_processes(case, folder):
    _, rule, checkpointing, _ = case
    out = torch.load(folder / f"{CASES.index(case)}.pt")
    loss, gradients = alone(rule, checkpointing)
    torch.testing.assert_close(out["loss"], loss)
    assert out["gradients"].keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(out["gradients"][name], gradient, rtol=1e-6, atol=1e-9, msg=name)
    assert torch.equal(out["tokens"], generated(prepared(rule, False).eval(), 0))
