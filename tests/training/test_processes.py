"""Trainings in processes of their own: killed ones end with the very weights of one that is left
alone, and two that share each batch with the weights of one that has it all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import dwindle
from dwindle.training.checkpoints import checkpoints
from dwindle.training.train import train
from dwindle.training.trainer import Fit
from tests.training import processes
from tests.training.lesson import DEV, EXAMPLES, MODELS, SETTINGS, made, taught

needs_gloo = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no gloo, which carries two processes on a CPU",
)
STARTERS = {
    "torchrun": ["torch.distributed.run", "--standalone", "--nproc_per_node", "2"],
    # "--cpu" would ask for MPI; "--multi_gpu" starts processes, which find that there is no GPU.
    "accelerate": [
        "accelerate.commands.launch",
        "--multi_gpu",
        "--num_processes",
        "2",
        "--main_process_port",
        "0",
    ],
}


def run(*command: str) -> None:
    paths = os.pathsep.join(
        [str(Path(__file__).parents[2]), str(Path(dwindle.__file__).parents[1])]
    )
    settings = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        [sys.executable, *command],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Where all the processes have been."""
    home = tmp_path_factory.mktemp("processes")
    (home / "two").mkdir()
    run("-c", f"from tests.training.processes import main, Path; main(Path({str(home)!r}))")
    return home


def told(home: Path) -> dict:
    return json.loads((home / "told.json").read_text())


@pytest.mark.parametrize("kind", processes.KILLS)
def test_killed_and_gone_on_gives_the_same_weights(kind, home, tmp_path):
    left_alone, killed = taught(kind, tmp_path), torch.load(home / f"{kind}.pt")
    assert left_alone.keys() == killed.keys()
    assert all(torch.equal(left_alone[name], killed[name]) for name in killed)


def test_what_is_half_written_is_no_checkpoint(home):
    assert told(home)["transformer 3 _maybe_log_save_evaluate"] == [0, False]
    assert told(home)["transformer 4 _save_rng_state"] == [0, True]
    assert told(home)["transformer 8 _save_optimizer_and_scheduler"] == [4, True]
    assert told(home)["transformer 10 _finalize_training"] == [10, False]


def test_no_room(home):
    assert "step 4 could not be written" in told(home)["no room"]
    assert "goes on from step 0" in told(home)["no room"]
    assert not list((home / "full/checkpoints").iterdir())


@needs_gloo
@pytest.mark.parametrize("kind", MODELS)
def test_two_processes(kind, home, tmp_path):
    same(torch.load(home / "two" / f"{kind}.pt"), taught(kind, tmp_path, **processes.SHARED))


@needs_gloo
def test_two_processes_share_batches_of_tokens(home, tmp_path):
    same(
        torch.load(home / "two" / "tokens.pt"),
        taught("transformer", tmp_path, **processes.SHARED, max_tokens=150),
    )


@needs_gloo
@pytest.mark.slow
@pytest.mark.parametrize("starter", STARTERS)
def test_two_processes_of_a_starter(starter, tmp_path):
    run("-m", *STARTERS[starter], processes.__file__, str(tmp_path))
    for kind in MODELS:
        same(
            torch.load(tmp_path / f"{kind}.pt"),
            taught(kind, tmp_path / "one" / kind, **processes.SHARED),
        )


def same(two: dict[str, torch.Tensor], one: dict[str, torch.Tensor]) -> None:
    assert two.keys() == one.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=0, atol=2e-6, msg=name)


def test_interrupted(tmp_path, capsys, monkeypatch):
    original = Fit.training_step

    def interrupted(self, *args, **kwargs):
        if self.state.global_step == 6:
            raise KeyboardInterrupt
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Fit, "training_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        taught("transformer", tmp_path)
    assert "stopped at step 6: the same command goes on from step 4" in capsys.readouterr().err
    monkeypatch.undo()
    taught("transformer", tmp_path)
    assert [p.name for p in checkpoints(tmp_path / "checkpoints")] == [
        "checkpoint-8",
        "checkpoint-10",
    ]


def test_a_checkpoint_of_another_model(tmp_path):
    taught("transformer", tmp_path, steps=4)
    model, codec = made("pointer-generator")
    with pytest.raises(ValueError, match="trained with another codec"):
        train(model, codec, EXAMPLES, DEV, SETTINGS["pointer-generator"], tmp_path, seed=5)
