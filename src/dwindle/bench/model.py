"""The cost of a rule in a whole model (training, generation, memory) beside the untouched model.

The models have the real sizes and random weights; no output is looked at. Contenders run in turn
and medians are compared, so that a busy machine hurts all alike; the untouched model runs twice,
and its ratio to itself is the noise. Small differences drown in that noise. So generation is timed
in CPU seconds of one thread, and the added work is also counted from inside: the time that the
cross-attention modules of the attached layers take, forward and backward, with the rule and
without.
"""

from __future__ import annotations  # transformers is imported only when a model is built

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function

from dwindle.attaching.handle import attach
from dwindle.bench.attention import peak_megabytes

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PARTS = ("step", "step-added", "generate", "generate-added", "memory")
_SCOPE = "cross-attention"
_ROUNDS = 30


@dataclass(frozen=True)
class Setting:
    """The part that is measured, and the sizes of its inputs."""

    config: str
    rule: str
    layers: int
    """Number of last cross-attention layers that have the rule."""
    batch: int = 1
    source: int = 512
    target: int = 128


@dataclass(frozen=True)
class Benched:
    """A model, and what the paper does with it."""

    family: str
    shape: dict[str, Any]
    layers: int
    rule: str


def _shape(width: int, layers: int, heads: int, inner: int, **more: Any) -> dict[str, Any]:
    sides = {"layers": layers, "attention_heads": heads, "ffn_dim": inner}
    return {
        "d_model": width,
        **{f"{s}_{k}": v for s in ("encoder", "decoder") for k, v in sides.items()},
        **more,
    }


SIZES = {
    "bart-base": Benched("Bart", _shape(768, 6, 12, 3072, vocab_size=50265), 6, "paper:bart-dydim"),
    "bart-large": Benched(
        "Bart", _shape(1024, 12, 16, 4096, vocab_size=50265), 7, "paper:bart-dydim"
    ),
    "marian-big": Benched(
        "Marian",
        _shape(
            1024, 6, 16, 4096, vocab_size=32001, pad_token_id=32000, decoder_start_token_id=32000
        ),
        1,
        "paper:nmt-dydim",
    ),
}


def setting(
    config: str, rule: str | None, layers: int | None, batch: int, source: int, target: int
) -> Setting:
    """The setting, with what the paper does where nothing is said."""
    if config not in SIZES:
        raise ValueError(f"unknown config {config!r}: choose one of {', '.join(SIZES)}")
    size = SIZES[config]
    return Setting(config, rule or size.rule, layers or size.layers, batch, source, target)


def bench(what: Setting, seconds: float, parts: list[str]) -> dict[str, Any]:
    """Each part as a dictionary of figures. A part takes about ``seconds``, memory two steps."""
    if unknown := set(parts) - set(PARTS):
        raise ValueError(f"unknown part {unknown.pop()!r}: choose from {', '.join(PARTS)}")
    found: dict[str, Any] = {}
    if set(parts) - {"memory"}:
        model = build(what.config)
        attach(model, what.rule, what.layers).detach()  # what is wrong with the setting shows now
        measures: dict[str, Callable[[PreTrainedModel, Setting, float], dict[str, float]]] = {
            "step": _step_time,
            "step-added": _step_added,
            "generate": _generation,
            "generate-added": _generation_added,
        }
        found = {
            part: measure(model, what, seconds)
            for part, measure in measures.items()
            if part in parts
        }
    if "memory" in parts:
        found["memory"] = _memory(what)
    return found


def build(config: str) -> PreTrainedModel:
    """A model of that size with random weights."""
    import transformers

    size = SIZES[config]
    torch.manual_seed(0)
    made = getattr(transformers, f"{size.family}Config")(**size.shape, attn_implementation="sdpa")
    name = {"Bart": "BartForConditionalGeneration", "Marian": "MarianMTModel"}[size.family]
    model: PreTrainedModel = getattr(transformers, name)(made)
    return model


def _inputs(what: Setting) -> dict[str, Tensor]:
    """A batch of random words; the last item of more than one is padded by a quarter."""
    ids = torch.randint(5, 30000, (what.batch, what.source))
    mask = torch.ones_like(ids)
    if what.batch > 1:
        mask[-1, -what.source // 4 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


def _step(model: PreTrainedModel, what: Setting) -> Callable[[], None]:
    """Forward and backward, without the optimiser: that would make what is added look smaller."""
    inputs, labels = _inputs(what), torch.randint(5, 30000, (what.batch, what.target))
    model.train()

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(**inputs, labels=labels).loss.backward()

    return step


def _in_turn(
    model: PreTrainedModel, what: Setting, run: Callable[[], Any], seconds: float
) -> dict[str, list[Any]]:
    """Untouched, attached, untouched again, until the time is over: what ``run`` gave each time."""
    ways = ("untouched", "attached", "control")
    results: dict[str, list[Any]] = {way: [] for way in ways}
    run()
    end = time.perf_counter() + seconds
    for turn in range(_ROUNDS):
        # the order turns around, so that no way always follows the same other
        for way in ways if turn % 2 else reversed(ways):
            with attach(model, what.rule, what.layers) if way == "attached" else nullcontext():
                results[way].append(run())
        if time.perf_counter() > end:
            break
    return results


def _timed(task: Callable[[], None], clock: Callable[[], float]) -> Callable[[], float]:
    def run() -> float:
        start = clock()
        task()
        return clock() - start

    return run


def _step_time(model: PreTrainedModel, what: Setting, seconds: float) -> dict[str, float]:
    """Seconds a step, and the ratios of the attached model and of the untouched one to it."""
    times = _in_turn(model, what, _timed(_step(model, what), time.perf_counter), seconds)
    return {
        "seconds": statistics.median(times["untouched"]),
        **_ratios(times),
        "rounds": len(times["control"]),
    }


def _generate(model: PreTrainedModel, what: Setting) -> Callable[[], None]:
    """Beam 4, as many new tokens as a quarter of the target."""
    inputs, tokens = _inputs(what), what.target // 4
    model.eval()

    @torch.no_grad()
    def run() -> None:
        model.generate(
            **inputs, num_beams=4, do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens
        )

    return run


def _generation(model: PreTrainedModel, what: Setting, seconds: float) -> dict[str, float]:
    """CPU seconds of one thread, and the ratios of the attached model and of the untouched one
    itself to it."""
    with _one_thread():
        times = _in_turn(model, what, _timed(_generate(model, what), time.process_time), seconds)
    return {
        "seconds": statistics.median(times["untouched"]),
        **_ratios(times),
        "rounds": len(times["control"]),
    }


@contextmanager
def _one_thread() -> Iterator[None]:
    """On one thread, time spent is CPU time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _ratios(times: dict[str, list[float]]) -> dict[str, float]:
    """The median over rounds of each way's time by the untouched model's in the same round."""
    base = times["untouched"]
    return {
        way: statistics.median(t / b for t, b in zip(times[way], base, strict=True))
        for way in ("attached", "control")
    }


def _step_added(model: PreTrainedModel, what: Setting, seconds: float) -> dict[str, float]:
    return _added(model, what, _step(model, what), seconds)


def _generation_added(model: PreTrainedModel, what: Setting, seconds: float) -> dict[str, float]:
    return _added(model, what, _generate(model, what), seconds)


def _added(
    model: PreTrainedModel, what: Setting, task: Callable[[], None], seconds: float
) -> dict[str, float]:
    """CPU time in attached modules, hooks included, as a share of the untouched model's task.

    The moving of coverage between beams is not inside.
    """
    # the profiler tells of each start and stop otherwise
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")

    def run() -> tuple[float, float]:
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            start = time.process_time()
            task()
            total = time.process_time() - start
        return _inside(profiler), total

    with _one_thread(), _scoped(model, what):
        results = _in_turn(model, what, run, seconds)
    inside = {way: statistics.median(i for i, _ in pairs) for way, pairs in results.items()}
    total = statistics.median(t for _, t in results["untouched"])
    return {
        "seconds": total,
        "untouched": inside["untouched"] / total,
        "attached": inside["attached"] / total,
        "added": (inside["attached"] - inside["untouched"]) / total,
        "control": (inside["control"] - inside["untouched"]) / total,
        "rounds": len(results["control"]),
    }


@contextmanager
def _scoped(model: PreTrainedModel, what: Setting) -> Iterator[None]:
    """Inside it, the profiler sees the cross-attention of the chosen layers under one name."""
    with attach(model, what.rule, what.layers) as handle:
        chosen = [one.module for one in handle.attached]
    scopes = ExitStack()

    def begin(*_: Any) -> None:
        scopes.enter_context(record_function(_SCOPE))

    def end(*_: Any) -> None:
        scopes.close()

    hooks = [module.register_forward_pre_hook(begin) for module in chosen]
    hooks += [module.register_forward_hook(end) for module in chosen]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _inside(profiler: Any) -> float:
    """Seconds inside the scope, and inside the backward functions of what was called there.

    The profiler numbers each function that autograd will differentiate; its backward function has
    the same number.
    """
    events = profiler.events()
    scopes = [e for e in events if e.name == _SCOPE]
    spans = [(e.thread, e.time_range.start, e.time_range.end) for e in scopes]
    numbers = {
        e.sequence_nr
        for e in events
        if e.sequence_nr >= 0
        and any(e.thread == t and a <= e.time_range.start <= b for t, a, b in spans)
    }
    backward = [
        e for e in events if e.name.startswith("autograd::engine") and e.sequence_nr in numbers
    ]
    return float(sum(e.time_range.end - e.time_range.start for e in (*scopes, *backward))) / 1e6


def _memory(what: Setting) -> dict[str, float]:
    """Peak memory of a training step in megabytes, each in a fresh process."""
    peaks = {way: _peak_of(what, way == "attached") for way in ("untouched", "attached", "control")}
    base = peaks["untouched"]
    return {
        "megabytes": base,
        "attached": peaks["attached"] / base,
        "control": peaks["control"] / base,
    }


def _peak_of(what: Setting, attached: bool) -> float:
    code = "import sys; from dwindle.bench.model import peak; peak(sys.argv[1])"
    given = json.dumps({**what.__dict__, "attached": attached})
    done = subprocess.run(
        [sys.executable, "-c", code, given], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ValueError(f"measuring memory failed: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout)


def peak(given: str) -> None:
    """Make one training step and print the peak of this process in megabytes."""
    settings = json.loads(given)
    attached = settings.pop("attached")
    what = Setting(**settings)
    model = build(what.config)
    if attached:
        attach(model, what.rule, what.layers)
    _step(model, what)()
    print(peak_megabytes())
