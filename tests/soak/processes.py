"""DDP and FSDP2 over two processes: the loss, the gradients and the outputs of one process with the
whole batch."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import torch

import dwindle
from tests.attaching import small

RULES = [
    "training-free",
    "dim:log",
    "dydim:log,power(0.5)",
    "dim:boxcox(0.5)+renormalise",
    "dim:log+share_heads",
]
WAIT = 300


def trial(random: Random, folder: Path) -> int:
    case = {
        "how": random.choice(["ddp", "fsdp"]),
        "build": random.choice(["bart", "t5", "mvp"]),
        "seed": random.randrange(1000),
        "rule": random.choice(RULES),
        "layers": random.randint(1, 2),
        "checkpointing": random.random() < 0.5,
        "lengths": [random.randint(3, 9) for _ in range(4)],
        "beams": random.randint(1, 3),
    }
    found = _run(case, folder)
    model = _model(case)
    loss = _loss(model, case, slice(None))
    loss.backward()
    torch.testing.assert_close(found["loss"], loss.detach())
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert found["gradients"].keys() == gradients.keys(), case
    for name, gradient in gradients.items():
        torch.testing.assert_close(
            found["gradients"][name], gradient, rtol=1e-6, atol=1e-9, msg=f"{name}: {case}"
        )
    assert torch.equal(found["tokens"], _tokens(model, case, 0)), case
    return 2 + len(gradients)


def _run(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What two processes, each with half of the batch, make of a case."""
    here = Path(__file__)
    paths = os.pathsep.join([str(here.parents[2]), str(Path(dwindle.__file__).parents[1])])
    code = f"from tests.soak.processes import worker; worker({case!r}, {str(folder)!r})"
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
        said = [process.communicate(timeout=WAIT)[1] for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert [process.returncode for process in running] == [0, 0], f"{case}\n" + "\n".join(said)
    return torch.load(folder / "found.pt")


def worker(case: dict[str, Any], folder: str) -> None:
    """One of two processes. The first writes what came of both."""
    from torch import distributed
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    rank, sharded = int(os.environ["RANK"]), case["how"] == "fsdp"
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    model = _model(case)
    if sharded:
        for block in (model.get_encoder(), model.get_decoder()):
            for layer in getattr(block, "layers", None) or block.block:
                fully_shard(layer)
        fully_shard(model)
    whole = model if sharded else DistributedDataParallel(model, find_unused_parameters=True)
    loss = _loss(whole, case, slice(2 * rank, 2 * rank + 2))
    loss.backward()
    grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    grads = {name: grad.full_tensor() if sharded else grad for name, grad in grads.items()}
    total = loss.detach().clone()
    distributed.all_reduce(total)
    if sharded:
        # generate() calls the encoder past the root, which would gather its own weights
        model.unshard()
    tokens = _tokens(model, case, rank)
    if rank == 0:
        torch.save(
            {"loss": total / 2, "gradients": grads, "tokens": tokens}, Path(folder) / "found.pt"
        )
    distributed.destroy_process_group()


def _model(case: dict[str, Any]):
    from tests.attaching.test_wrapped import mvp

    model = (
        {"bart": small.bart, "t5": small.t5}[case["build"]](case["seed"])
        if case["build"] != "mvp"
        else mvp()
    )
    model = model.double().eval()  # no dropout: the halves must see what the whole sees
    dwindle.attach(model, case["rule"], layers=case["layers"])
    if case["checkpointing"]:
        model.train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            for name in ("dropout", "attention_dropout", "activation_dropout", "dropout_rate"):
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, 0.0)
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def _loss(model, case: dict[str, Any], items: slice) -> torch.Tensor:
    inputs = {name: x[items] for name, x in small.source(tuple(case["lengths"])).items()}
    rows, labels = small.target(batch=4)[items], small.target(batch=4, seed=20)[items]
    return model(**inputs, decoder_input_ids=rows, labels=labels, use_cache=False).loss


def _tokens(model, case: dict[str, Any], rank: int) -> torch.Tensor:
    """What is written from one half of the batch."""
    model.eval()
    inputs = {
        name: x[2 * rank : 2 * rank + 2] for name, x in small.source(tuple(case["lengths"])).items()
    }
    settings = {
        "num_beams": case["beams"],
        "max_new_tokens": 6,
        "min_new_tokens": 6,
        "do_sample": False,
    }
    with torch.no_grad():
        return model.generate(**inputs, **settings)
