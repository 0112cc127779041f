"""The Triton kernels without a GPU: their numbers by the interpreter, their code by the
compiler."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import dwindle

pytestmark = pytest.mark.skipif(
    find_spec("triton") is None, reason="triton is not installed: pip install 'dwindle[gpu]'"
)


def interpreted(script, *arguments):
    """In a process of its own: the interpreter is chosen before triton is imported."""
    path = os.pathsep.join([str(Path(dwindle.__file__).parents[1]), str(Path(__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / script), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "TRITON_INTERPRET": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_numbers_as_the_eager_twin():
    assert interpreted("backend_matrix.py", "triton").split()[-1] == "agree"


@pytest.mark.slow
def test_numbers_of_every_rule_and_option():
    assert interpreted("backend_matrix.py", "triton", "all").split()[-1] == "agree"


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_code_for_cards_that_are_not_here(target):
    from dwindle.bench import compiled
    from dwindle.core.backends.triton_tiles import choices

    launches = compiled.launches("dydim:log,power(0.5)", torch.bfloat16, 64)
    assert [x.name for x in launches] == ["norms", "forward", "backward_values", "backward_scores"]
    depths = {}
    for launch in launches:
        found = compiled.compiled(launch, choices(launch.name, 64, 2)[0], target)
        assert not found.faults()
        assert found.blocks >= 2
        assert found.tensor > 0
        depths[launch.name] = found.depth
    # Multiplications for each element of a tile: 1, 2, 3 and 4 products with heads of 64, all on
    # tensor cores.
    assert depths == {"norms": 64, "forward": 128, "backward_values": 192, "backward_scores": 256}


def test_a_fault_is_named():
    from dwindle.bench.compiled import Compiled

    good = Compiled("forward", "sm_80", "", 200, 0, 30000, 128, 64, 10, 2, 30.0, 128.0)
    assert good.faults() == []
    assert good.blocks == 2
    bad = Compiled("forward", "sm_80", "", 255, 8, 170000, 128, 0, 10, 2, 30.0, 0.0)
    assert bad.faults() == ["8 bytes spilled", "170000 bytes of shared memory", "no tensor cores"]
