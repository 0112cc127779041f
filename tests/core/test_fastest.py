"""The choice of a backend by timing, with clocks that tell what the test wants."""

import json
import math

import pytest
import torch

import dwindle
from dwindle.core import functional
from dwindle.core.backends import fastest
from dwindle.core.functional import checked_call
from dwindle.system import cache

RULE = "dydim:log,power(0.5)"


class Timed:
    """A backend whose runs take so many seconds by the fake clock."""

    def __init__(self, clock, seconds, fails=False):
        self.clock, self.seconds, self.fails, self.runs = clock, seconds, fails, 0

    def attention(self, call):
        self.runs += 1
        if self.fails:
            raise torch.OutOfMemoryError("no memory left")
        self.clock.now += self.seconds
        torch.rand(1)
        return functional.BACKENDS["eager"].attention(call)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "home", lambda: tmp_path / "dwindle")
    monkeypatch.setattr(fastest, "_found", {})
    clock = Clock()
    monkeypatch.setattr(fastest, "clock", clock)
    return clock


def call(rows=4, source=9, gradients=False, **options):
    q, k, v = (torch.randn(2, 2, n, 8, requires_grad=gradients) for n in (rows, source, source))
    return checked_call(q, k, v, rule=RULE, **options)


def timed(clock, **seconds):
    return {name: Timed(clock, value) for name, value in seconds.items()}


@pytest.mark.parametrize("gradients", [False, True])
def test_the_fastest_is_taken_and_remembered(clock, gradients):
    backends = timed(clock, triton=0.3, chunked=0.1, eager=0.2)
    assert fastest.fastest(call(gradients=gradients), backends) == "chunked"
    runs = [backend.runs for backend in backends.values()]
    assert min(runs) > 1
    assert fastest.fastest(call(gradients=gradients), backends) == "chunked"
    assert [backend.runs for backend in backends.values()] == runs


def test_never_slower_than_eager(clock):
    assert fastest.fastest(call(), timed(clock, triton=0.3, chunked=0.2, eager=0.1)) == "eager"


def test_each_class_of_calls_is_timed_for_itself(clock):
    assert fastest.fastest(call(), timed(clock, triton=1, eager=2)) == "triton"
    assert fastest.fastest(call(source=100), timed(clock, triton=2, eager=1)) == "eager"
    assert fastest.fastest(call(gradients=True), timed(clock, triton=2, eager=1)) == "eager"
    assert fastest.fastest(call(softcap=3.0), timed(clock, triton=2, eager=1)) == "eager"
    assert fastest.fastest(call(source=10), timed(clock, triton=2, eager=1)) == "triton"  # as 9


def test_the_next_process_reads_the_file(clock, monkeypatch, tmp_path):
    fastest.fastest(call(), timed(clock, triton=0.3, eager=0.2))
    monkeypatch.setattr(fastest, "_found", {})
    never = timed(clock, triton=0.1, eager=0.2)
    assert fastest.fastest(call(), never) == "eager"
    assert never["triton"].runs == 0
    [(key, times)] = json.loads((tmp_path / "dwindle" / "fastest.json").read_text()).items()
    assert key == fastest.described(call())
    assert times == pytest.approx({"triton": 0.3, "eager": 0.2})
    assert f"torch={torch.__version__}" in key


def test_a_new_candidate_is_timed_with_the_others(clock):
    fastest.fastest(call(), timed(clock, chunked=0.3, eager=0.2))
    assert fastest.fastest(call(), timed(clock, triton=0.1, chunked=0.3, eager=0.2)) == "triton"


@pytest.mark.parametrize("text", ["{", "[]", '{"x": 1}', '{"x": {"y": "z"}}', "\xff"])
def test_a_damaged_file_is_written_again(clock, tmp_path, text):
    (tmp_path / "dwindle").mkdir()
    (tmp_path / "dwindle" / "fastest.json").write_bytes(text.encode("latin-1"))
    assert fastest.fastest(call(), timed(clock, triton=0.3, eager=0.2)) == "eager"
    assert list(json.loads((tmp_path / "dwindle" / "fastest.json").read_text())) == [
        fastest.described(call())
    ]


def test_a_cache_that_cannot_be_written_is_done_without(clock, tmp_path):
    (tmp_path / "dwindle").write_text("a file, not a folder")
    assert fastest.fastest(call(), timed(clock, triton=0.3, eager=0.2)) == "eager"


def test_one_that_fails_is_never_taken(clock, monkeypatch):
    backends = {"triton": Timed(clock, 0.1, fails=True), "eager": Timed(clock, 0.2)}
    assert fastest.fastest(call(), backends) == "eager"
    monkeypatch.setattr(fastest, "_found", {})
    assert fastest.explained(call(), backends)["triton"] == math.inf  # from the file
    assert backends["triton"].runs == 1


def test_trying_changes_neither_gradients_nor_draws(clock):
    given = call(gradients=True)
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    fastest.fastest(given, timed(clock, triton=0.3, eager=0.2))
    torch.testing.assert_close(torch.rand(3), expected)
    assert given.query.grad is None


def test_nothing_is_timed_where_a_compiler_looks_on(clock):
    backends = timed(clock, triton=0.3, eager=0.2)
    step = torch.compile(
        lambda q: q * len(fastest.fastest(call()._replace(query=q), backends)), backend="eager"
    )
    q = torch.randn(2, 2, 4, 8)
    torch.testing.assert_close(step(q), q * len("triton"))
    assert backends["triton"].runs == 0


def test_gpus_ask_it_and_cpus_do_not(clock, monkeypatch):
    asked = []
    monkeypatch.setattr(
        fastest, "fastest", lambda call, candidates: asked.append(list(candidates)) or "eager"
    )
    q, k, v = (torch.randn(2, 2, n, 8) for n in (4, 9, 9))
    dwindle.attention(q, k, v, rule=RULE)
    assert not asked

    class Elsewhere(torch.Tensor):
        is_cuda = True

    given = call()._replace(query=call().query.as_subclass(Elsewhere))
    assert functional._chosen(given, None) == "eager"
    assert "eager" in asked[0]
    assert functional._chosen(given, "chunked") == "chunked"
    monkeypatch.setenv("DWINDLE_BACKEND", "chunked")
    assert functional._chosen(given, None) == "chunked"
