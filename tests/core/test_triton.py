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


def test_errors_no_larger_than_those_of_sdpa():
    assert interpreted("backend_matrix.py", "triton", "precision").split()[-1] == "agree"


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_code_for_cards_that_are_not_here(target):
    from dwindle.bench import compiled

    launches = compiled.launches("dydim:log,power(0.5)", torch.bfloat16, 64, target=target)
    assert [x.name for x in launches] == ["norms", "forward", "backward_values", "backward_scores"]
    depths = {}
    for launch in launches:
        found = compiled.compiled(launch, launch.tiles[0], target)
        assert not found.faults()
        assert found.blocks >= 2
        assert found.tensor > 0
        depths[launch.name] = found.depth
        if launch.name == "forward":
            assert found.loop < 36  # 31; 56 with a scan through shared memory for every 16 rows
    # Multiplications for each element of a tile: 1, 2, 3 and 4 products with heads of 64, all on
    # tensor cores.
    assert depths == {"norms": 64, "forward": 128, "backward_values": 192, "backward_scores": 256}


@pytest.mark.parametrize(("head", "option"), [(64, "mask"), (128, None)])
def test_tiles_of_newer_cards_fit_into_their_registers(head, option):
    from dwindle.bench import compiled

    options = (
        {option: torch.empty(4, 1, 1, 1024, dtype=torch.bool, device="meta")} if option else {}
    )
    made = compiled.launches("dydim:log,power(0.5)", torch.bfloat16, head, options, target="sm_90")
    [forward] = [launch for launch in made if launch.name == "forward"]
    assert not compiled.compiled(forward, forward.tiles[0], "sm_90").faults()


def test_a_fault_is_named():
    from dwindle.bench.compiled import Compiled

    good = Compiled("forward", "sm_80", "", 200, 0, 30000, 128, 64, 10, 2, 30.0, 128.0)
    assert good.faults() == []
    assert good.blocks == 2
    bad = Compiled("forward", "sm_80", "", 255, 8, 170000, 128, 0, 10, 2, 30.0, 0.0)
    assert bad.faults() == [
        "8 bytes spilled",
        "170000 bytes of shared memory",
        "no tensor cores",
        "one block to a processor",
    ]


def test_counts_that_are_known_are_not_made_again(monkeypatch):
    from dwindle.bench import compiled

    [launch] = compiled.launches("plain", torch.float16, 64)[:1]
    known = {}
    monkeypatch.setattr(compiled, "_built", lambda source, target, options: "a binary")
    counts = compiled.Compiled("norms", "sm_80", "", 200, 0, 30000, 128, 64, 10, 1, 9.0, 64.0)
    monkeypatch.setattr(compiled, "counted", lambda *given: counts)
    first = compiled.compiled(launch, None, "sm_80", known)
    monkeypatch.delattr(compiled, "_built")
    assert compiled.compiled(launch, None, "sm_80", known) == first
    with pytest.raises(LookupError, match="not compiled yet"):
        compiled.compiled(launch, None, "sm_90", known, only_known=True)
    case = compiled.Case("plain", "fp16", 64, "sm_80", "norms")
    told = compiled.summary([(case, first), (case, None), (case._replace(head=128), None)])
    assert "| sm_80 | fp16 | 64 | norms | 1 of 2 | all | 200 | 0 |" in told
    assert "1 of 3 compiled, 0 of them with faults. Kernels are missing of: sm_80 fp16 128." in told


def test_every_option_is_code_that_the_compiler_reads(monkeypatch):
    """All kernels with all rules and options, as far as Triton's first stage."""
    from triton._C.libtriton import ir
    from triton.compiler.compiler import make_backend

    from dwindle.bench import compiled

    def first_stage(source, target, options):
        backend, context = make_backend(target), ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        chosen = backend.parse_options({**options, **compiled.FUSED})
        functions = backend.get_codegen_implementation(chosen)
        return source.make_ir(target, chosen, functions, backend.get_module_map(), context)

    monkeypatch.setattr(compiled, "_built", first_stage)
    monkeypatch.setattr(
        compiled, "counted", lambda binary, *names: compiled._failed(*names[:2], 4, "")
    )
    found = list(compiled.checked(["sm_80"], [64], [torch.bfloat16], False, {}))
    assert len({case.name for case, _ in found}) == 15
    assert {case.kernel for case, _ in found} >= {"shared_losses", "step_weigh", "forward"}
    assert {x.failure for _, x in found} == {""}


def test_what_the_compiler_does_not_take_is_a_fault(monkeypatch):
    from dwindle.bench import compiled

    def refuse(source, target, options):
        raise ValueError("at 17:4:\n  a = b\n  ^\n")

    monkeypatch.setattr(compiled, "_built", refuse)
    [launch] = compiled.launches("plain", torch.float16, 64)[:1]
    found = compiled.compiled(launch, None, "sm_90", {})
    assert found.faults() == ["not compiled: a = b"]


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ((8, torch.bfloat16, 128, True, True), True),
        ((7, torch.float16, 64, False, False), False),
        ((8, torch.float32, 64, False, True), True),
        ((9, torch.float32, 64, True, False), True),
        ((8, torch.float32, 64, True, True), False),
        ((8, torch.float32, 128, False, False), False),
        ((8, torch.float32, 64, True, False, True), True),
        ((9, torch.float32, 64, False, False, True), True),
        ((9, torch.float32, 64, True, False, True), False),
        ((9, torch.bfloat16, 64, True, True, True), True),
    ],
)
def test_a_card_is_refused_what_does_not_fit(given, fits):
    from dwindle.core.backends.triton import card_objection

    assert (card_objection(*given) is None) == fits
