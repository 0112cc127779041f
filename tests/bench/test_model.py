"""The measurement itself, on a tiny model: what it counts, and that it leaves nothing behind."""

import time

import pytest
import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from dwindle.attaching import cross
from dwindle.bench import model as bench
from tests.attaching.small import SHAPE

SIZE = bench.Benched("Bart", SHAPE, 2, "dim:log")


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    monkeypatch.setitem(bench.SIZES, "tiny", SIZE)
    monkeypatch.setattr(
        bench,
        "_inputs",
        lambda what: {"input_ids": torch.randint(4, 40, (what.batch, what.source))},
    )
    randint = torch.randint
    monkeypatch.setattr(
        torch, "randint", lambda low, high, *a, **k: randint(low, min(high, 40), *a, **k)
    )


def test_parts():
    what = bench.setting("tiny", None, None, 1, 12, 8)
    assert (what.rule, what.layers) == ("dim:log", 2)
    before = ALL_ATTENTION_FUNCTIONS["sdpa"], torch.get_num_threads()
    found = bench.bench(what, 0.0, ["step", "step-added", "generate", "generate-added"])
    assert (ALL_ATTENTION_FUNCTIONS["sdpa"], torch.get_num_threads()) == before
    assert ALL_ATTENTION_FUNCTIONS["dwindle"] is cross.attend
    assert list(found) == ["step", "step-added", "generate", "generate-added"]
    assert all(value > 0 for part in ("step", "generate") for value in found[part].values())
    for part in ("step-added", "generate-added"):
        assert all(found[part][key] > 0 for key in ("seconds", "untouched", "attached"))


@pytest.mark.slow  # it looks at times, which a busy machine stretches
def test_attention_is_a_share_of_the_whole_and_a_rule_a_larger_one():
    found = bench.bench(
        bench.setting("tiny", None, None, 1, 12, 8), 0.0, ["step-added", "generate-added"]
    )
    for part in found.values():
        assert 0 < part["untouched"] < part["attached"] < 1


@pytest.mark.slow  # it looks at times, which a busy machine stretches
def test_what_is_added_is_counted(monkeypatch):
    """A rule that sleeps in the forward and in the backward pass is seen to take that long."""

    class Sleepy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            time.sleep(0.02)
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            time.sleep(0.03)
            return gradient

    attend = cross.attend

    def slowly(module, query, *args, **kwargs):
        return attend(module, Sleepy.apply(query), *args, **kwargs)

    monkeypatch.setattr(cross, "attend", slowly)
    monkeypatch.setattr(time, "process_time", time.perf_counter)  # sleep takes no CPU time
    model = bench.build("tiny")
    found = bench._step_added(model, bench.setting("tiny", None, 2, 1, 12, 8), 0.0)
    assert found["added"] * found["seconds"] == pytest.approx(2 * 0.05, rel=0.5)
    assert abs(found["control"]) * found["seconds"] < 0.02


def test_memory(monkeypatch):
    asked = []
    monkeypatch.setattr(
        bench, "_peak_of", lambda what, attached: asked.append(attached) or 100.0 + attached
    )
    assert bench.bench(bench.setting("tiny", None, None, 1, 12, 8), 0.0, ["memory"]) == {
        "memory": {"megabytes": 100.0, "attached": 1.01, "control": 1.0}
    }
    assert asked == [False, True, False]


def test_peak_of_a_process(capsys):
    bench.peak(
        '{"config": "tiny", "rule": "dim:log", "layers": 2, "source": 12, "target": 8, '
        '"attached": true}'
    )
    assert 50 < float(capsys.readouterr().out) < 20000


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: bench.setting("bart", None, None, 1, 8, 8), "choose one of bart-base"),
        (
            lambda: bench.bench(bench.setting("tiny", None, None, 1, 8, 8), 0, ["speed"]),
            "choose from step",
        ),
        (
            lambda: bench.bench(bench.setting("tiny", "dim:lgo", None, 1, 8, 8), 0, ["step"]),
            "did you mean",
        ),
        (lambda: bench.bench(bench.setting("tiny", None, 9, 1, 8, 8), 0, ["step"]), "pass 1 to 3"),
    ],
)
def test_errors(call, said):
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "millions"), [("bart-base", 139), ("bart-large", 406), ("marian-big", 211)]
)
def test_sizes(config, millions):
    with torch.device("meta"):
        model = bench.build(config)
    assert round(sum(p.numel() for p in model.parameters()) / 1e6) == millions
