"""A training that is killed, at any moment, ends with the very weights of one that is left alone."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lesson import DEV, EXAMPLES, SETTINGS, made, taught

import dwindle
from dwindle.training.checkpoints import WRITING, checkpoints, last_step
from dwindle.training.train import train
from dwindle.training.trainer import Fit

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


def attempt(kind: str, folder: Path, step: int, method: str) -> None:
    """Train in a process of its own that kills itself on its way."""
    original = getattr(Fit, method)

    def deadly(self, *args, **kwargs):
        if self.state.global_step == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(self, *args, **kwargs)

    child = os.fork()
    if child == 0:
        setattr(Fit, method, deadly)
        taught(kind, folder)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, f"was not killed in {method}"


def no_room(folder: Path) -> str:
    """What a process says that may write no more than 100 kB into a file, and so not the weights."""
    import resource

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
    return os.fdopen(reading).read()


def worker(home: Path) -> None:
    """All that needs processes to die in, from one that has torch loaded: a fork costs nothing, a start seconds."""
    told = {}
    for kind in KILLS:
        torch.save(taught(kind, home / kind / "whole"), home / kind / "whole.pt")
        for step, method in KILLS[kind]:
            attempt(kind, home / kind / "killed", step, method)
            left = home / kind / "killed/checkpoints"
            told[f"{kind} {step} {method}"] = [last_step(left), (left / WRITING).exists()]
        torch.save(taught(kind, home / kind / "killed"), home / kind / "killed.pt")
    told["no room"] = no_room(home / "transformer" / "whole2")
    told["no room left"] = [p.name for p in (home / "transformer/whole2/checkpoints").iterdir()]
    (home / "told.json").write_text(json.dumps(told))


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home, here = tmp_path_factory.mktemp("killed"), Path(__file__)
    paths = os.pathsep.join([str(here.parent), str(Path(dwindle.__file__).parents[1])])
    code = f"from {here.stem} import worker, Path; worker(Path({str(home)!r}))"
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    for kind in KILLS:
        (home / kind).mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return home


@pytest.mark.parametrize("kind", KILLS)
def test_killed_and_gone_on_gives_the_same_weights(kind, home):
    whole, killed = (torch.load(home / kind / f"{part}.pt") for part in ("whole", "killed"))
    assert whole.keys() == killed.keys()
    assert all(torch.equal(whole[name], killed[name]) for name in whole)


def test_what_is_half_written_is_no_checkpoint(home):
    told = json.loads((home / "told.json").read_text())
    assert told["transformer 3 _maybe_log_save_evaluate"] == [0, False]
    assert told["transformer 4 _save_rng_state"] == [0, True]
    assert told["transformer 8 _save_optimizer_and_scheduler"] == [4, True]
    assert told["transformer 10 _finalize_training"] == [10, False]


def test_no_room(home):
    told = json.loads((home / "told.json").read_text())
    assert "step 4 could not be written" in told["no room"]
    assert "goes on from step 0" in told["no room"]
    assert not told["no room left"]


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
    assert [p.name for p in checkpoints(tmp_path / "checkpoints")] == ["checkpoint-8", "checkpoint-10"]


def test_a_checkpoint_of_another_model(tmp_path):
    taught("transformer", tmp_path, steps=4)
    model, codec = made("pointer-generator")
    with pytest.raises(ValueError, match="of another model"):
        train(model, codec, EXAMPLES, DEV, SETTINGS["pointer-generator"], tmp_path, seed=5)
