"""Times attention against ``F.scaled_dot_product_attention`` in the same run.

Everything is interleaved: each round runs every contender once, and the medians are compared, so
that a busy machine hurts all alike. SDPA runs twice, once as a contender against itself: its ratio
is the noise. Peak memory is measured in a fresh process for each contender, as growth of the
resident set; on a GPU in this one, as torch counts it there.
"""

import json
import math
import random
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dwindle.core.backends import fastest
from dwindle.core.coverage import Coverage
from dwindle.core.functional import attention, candidates, checked_call
from dwindle.core.notation import rule as parse

Shape = tuple[int, int, int, int, int]
SHAPES: dict[str, Shape] = {  # B, H, T, S, D
    "bart": (4, 16, 128, 1024, 64),
    "nmt": (64, 16, 32, 32, 64),
    "long": (1, 12, 512, 8192, 64),
    "step": (16, 16, 1, 1024, 64),
    "prompt": (2, 16, 256, 2304, 64),
    "prompt-step": (2, 16, 1, 2304, 64),
}
DOCUMENT = 2048
"""Keys of a prompt that are its source; the others were written after it. Masks are causal."""
RULES = (
    "dim:power(0.65)",
    "dydim:log,power(0.5)",
    "dim:boxcox(-4)",
    "dydim:boxcox(-2),boxcox(0.5)",
    "dim:boxcox(0.5)+renormalise",
    "dydim:log,power(0.5)+protect(0,-1)",
    "training-free",
    "dim:log+share_heads",
    "dydim:log,power(0.5)+share_heads+renormalise+protect(0,-1)",
)
_SDPA, _CONTROL = "SDPA", "SDPA again (control)"
_TURN = 2e-3  # seconds: what a shorter turn finds in the caches is what others left there


@dataclass(frozen=True)
class Timing:
    """One contender on one shape, in milliseconds; ratios to SDPA and to its rule's eager twin."""

    contender: str
    forward: float
    forward_to_sdpa: float
    forward_to_eager: float | None
    both: float | None
    both_to_sdpa: float | None
    both_to_eager: float | None
    megabytes: float | None
    """Peak memory of forward + backward beyond the inputs."""

    @property
    def rule_and_backend(self) -> tuple[str, str]:
        """The rule and the backend of a contender; SDPA has no rule."""
        rule, _, backend = self.contender.rpartition(" ")
        return ("", self.contender) if self.contender in (_SDPA, _CONTROL) else (rule, backend)


def shape(text: str) -> Shape:
    """``bart``, or ``B,H,T,S,D``."""
    if text in SHAPES:
        return SHAPES[text]
    parts = text.split(",")
    if len(parts) != 5 or not all(p.strip().isdigit() and int(p) for p in parts):
        raise ValueError(
            f"unknown shape {text!r}: choose one of {', '.join(SHAPES)}, or write B,H,T,S,D"
        )
    b, h, t, s, d = map(int, parts)
    return b, h, t, s, d


def bench(
    sizes: Shape,
    rules: list[str],
    backends: list[str],
    seconds: float,
    memory: bool,
    document: int | None = None,
    device: str = "cpu",
) -> list[Timing]:
    """Every rule through every backend (``"auto"``: the picked one), for about so many seconds.

    ``document``: self-attention after a source of so many keys, rather than attention over a
    source. On a GPU the tensors are in half precision.
    """
    for text in rules:
        parse(text)
    contenders = [
        _SDPA,
        _CONTROL,
        *(f"{rule} {backend}" for rule in rules for backend in [*backends, "eager"]),
    ]
    contenders = list(dict.fromkeys(contenders))
    step = sizes[2] == 1
    inputs = _inputs(sizes, device)
    runs = {name: _contender(name, inputs, step, document) for name in contenders}
    runs = {name: _finished(run, device) for name, run in runs.items()}
    forward = interleaved({name: _without_gradient(run) for name, run in runs.items()}, seconds / 2)
    grad = torch.randn_like(inputs[0])
    both = (
        None
        if step
        else interleaved({n: _with_gradient(r, inputs, grad) for n, r in runs.items()}, seconds)
    )
    rows = []
    for name in contenders:
        eager = name.rsplit(" ", 1)[0] + " eager" if name not in (_SDPA, _CONTROL) else None
        rows.append(
            Timing(
                name,
                1e3 * forward[name],
                forward[name] / forward[_SDPA],
                forward[name] / forward[eager] if eager else None,
                1e3 * both[name] if both else None,
                both[name] / both[_SDPA] if both else None,
                both[name] / both[eager] if both and eager else None,
                _peak(sizes, name, document, device)
                if memory and not step and name != _CONTROL
                else None,
            )
        )
    return rows


def as_dicts(rows: list[Timing]) -> list[dict[str, object]]:
    return [asdict(row) for row in rows]


Run = Callable[[], Tensor]


def explain(sizes: Shape, rules: list[str], device: str, document: int | None = None) -> list[str]:
    """The backend that is taken for each rule, with gradients, and the milliseconds of each when
    they were tried."""
    lines = []
    for text in rules:
        inputs = _inputs(sizes, device)
        call = checked_call(*inputs, rule=parse(text), **_settings(text, inputs, document))
        able = candidates(call)
        times = fastest.explained(call, able)
        told = ", ".join(f"{name} {1e3 * times[name]:.3f}" for name in able)
        lines.append(f"{text}: {fastest.fastest(call, able)} ({told} ms)")
    return lines


def _inputs(sizes: Shape, device: str = "cpu") -> list[Tensor]:
    b, h, t, s, d = sizes
    torch.manual_seed(0)
    dtype = torch.float32
    if device != "cpu":
        dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return [
        torch.randn(b, h, n, d, device=device, dtype=dtype, requires_grad=True) for n in (t, s, s)
    ]


def _finished(run: Run, device: str) -> Run:
    """A run that ends when its work does: a GPU is only told what to do."""
    if device == "cpu":
        return run

    def waited() -> Tensor:
        context = run()
        torch.cuda.synchronize(device)
        return context

    return waited


def _contender(name: str, inputs: list[Tensor], step: bool, document: int | None = None) -> Run:
    q, k, v = inputs
    if name in (_SDPA, _CONTROL):
        mask = _settings("plain", inputs, document).get("mask")
        return lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    text, backend = name.rsplit(" ", 1)
    settings = _settings(text, inputs, document) | {
        "rule": parse(text),
        "backend": None if backend == "auto" else backend,
    }
    if step:  # the coverage is moved on in place, as in decoding
        covered = k.shape[2] if document is None else document
        zero = torch.zeros(
            q.shape[0], 1 if parse(text).share_heads else q.shape[1], covered, device=q.device
        )
        coverage = Coverage(zero, zero.clone())
        return lambda: attention(q, k, v, coverage=coverage, inplace=True, **settings)[0]
    return lambda: attention(q, k, v, **settings)[0]


def _settings(text: str, inputs: list[Tensor], document: int | None) -> dict[str, Any]:
    """Mask, source and protected positions of a contender."""
    q, k, _ = inputs
    (b, _, t, _), s, device = q.shape, k.shape[2], q.device
    settings: dict[str, Any] = {}
    if document is not None:
        settings["mask"] = (
            torch.ones(t, s, dtype=torch.bool, device=device).tril(s - t).expand(b, 1, t, s)
        )
        settings["source"] = torch.ones(b, document, dtype=torch.bool, device=device)
    if parse(text).protect == "special":  # as in a text: the first token and the last two
        settings["protected"] = torch.zeros(
            b, s if document is None else document, dtype=torch.bool, device=device
        )
        settings["protected"][:, [0, -2, -1]] = True
    if text == "plain":
        settings.pop("source", None)
    return settings


def _without_gradient(run: Run) -> Run:
    return torch.no_grad()(run)


def _with_gradient(run: Run, inputs: list[Tensor], grad: Tensor) -> Run:
    def both() -> Tensor:
        for x in inputs:
            x.grad = None
        context = run()
        context.backward(grad)  # type: ignore[no-untyped-call]
        return context

    return both


def interleaved(runs: dict[str, Run], seconds: float) -> dict[str, float]:
    """Median seconds of each, all in turn, for about so long and at least three rounds.

    A turn is one call, or as many as the first of ``runs`` makes in two milliseconds. Every round
    has another order: what follows a contender that fills the caches would else always be the same
    one.
    """
    order, chance = list(runs), random.Random(0)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():  # the first round builds, allocates and warms up
        run()
    first = next(iter(runs))
    calls = math.ceil(_TURN / min(_seconds(runs[first], 1) for _ in range(5)))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[first]) < 3:
        chance.shuffle(order)
        for name in order:
            times[name].append(_seconds(runs[name], calls))
    return {name: statistics.median(values) for name, values in times.items()}


def _seconds(run: Run, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def _peak(sizes: Shape, name: str, document: int | None, device: str) -> float:
    """Megabytes of forward + backward beyond the inputs."""
    if device == "cpu":
        return _fresh_peak(sizes, name, document)
    inputs = _inputs(sizes, device)
    both = _with_gradient(
        _contender(name, inputs, False, document), inputs, torch.randn_like(inputs[0])
    )
    both()
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    both()
    return (torch.cuda.max_memory_allocated(device) - before) / 2**20


def _fresh_peak(sizes: Shape, name: str, document: int | None = None) -> float:
    """Megabytes of forward + backward beyond the inputs, in a process of its own."""
    command = [sys.executable, "-m", "dwindle.bench.attention", json.dumps([sizes, name, document])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(
            f"measuring the memory of {name} failed: {done.stderr.strip().splitlines()[-1]}"
        )
    return float(done.stdout)


def _own_peak(sizes: Shape, name: str, document: int | None) -> float:
    """Growth of the largest resident set in one forward + backward, after a tiny warm-up."""
    small = _inputs((1, 1, 2, 5, 8))
    _with_gradient(_contender(name, small, step=False), small, torch.ones(1, 1, 2, 8))()
    inputs = _inputs(sizes)
    grad = torch.randn(*sizes[:3], sizes[4])
    run = _contender(name, inputs, False, document)
    before = peak_megabytes()
    _with_gradient(run, inputs, grad)()
    return peak_megabytes() - before


def peak_megabytes() -> float:
    """The largest resident set of this program so far."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would start at the size of the process that started this one
        return int(re.findall(r"VmHWM:\s*(\d+)", status.read_text(encoding="ascii"))[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    asked, contender, source = json.loads(sys.argv[1])
    print(_own_peak(tuple(asked), contender, source))


def draw(results: Mapping[str, Sequence[Timing]], path: Path) -> None:
    """Bars of forward and forward + backward over SDPA; the line at 1 is its price."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ValueError(
            "the picture needs matplotlib: type pip install 'dwindle[figures]'"
        ) from None
    figure = Figure(figsize=(8, 1 + 1.8 * len(results)), layout="constrained")
    panels = figure.subplots(len(results), 1, squeeze=False)[:, 0]
    for panel, (name, rows) in zip(panels, results.items(), strict=True):
        places = range(len(rows))
        panel.barh(
            [y - 0.2 for y in places], [r.forward_to_sdpa for r in rows], 0.38, label="forward"
        )
        panel.barh(
            [y + 0.2 for y in places],
            [r.both_to_sdpa or 0 for r in rows],
            0.38,
            label="forward + backward",
        )
        panel.axvline(1, color="black", linewidth=0.8)
        panel.set_yticks(list(places), [r.contender for r in rows], fontsize=7)
        panel.invert_yaxis()
        panel.set_title(f"{name}: time / SDPA", fontsize=9, loc="left")
    panels[0].legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
