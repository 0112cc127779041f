"""Launched as two processes, a recipe gives what one process gives: weights within rounding, the
same outputs."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from dwindle.runs import job, recipe, steps
from tests.runs.tiny_recipes import tiny

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no gloo, which carries two processes on a CPU",
)


@pytest.mark.slow
def test_two_processes_are_one_command(tmp_path):
    changes = tiny("newsroom/dim")
    launch = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "dwindle.cli.main",
    ]
    command = [
        sys.executable,
        *launch,
        "run",
        "newsroom/dim",
        *changes,
        "--out",
        str(tmp_path / "two"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("rouge1") == 1  # one of them prints
    one = steps.run(recipe.read("newsroom/dim", changes), tmp_path / "one")
    two = job.find(tmp_path / "two")
    assert two.record["stages"]["generate"]["processes"] == 2
    ours, theirs = (load_file(run.model / "model.safetensors") for run in (one, two))
    for name, weight in ours.items():
        torch.testing.assert_close(theirs[name], weight, rtol=1e-4, atol=1e-6)
    assert two.outputs.items == one.outputs.items
