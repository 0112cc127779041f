"""Finds out which backend is fastest on a GPU, by running them.

On a CPU the order of the backends is known. On a GPU it depends on the card: at the first call of a
class (dtype, head size, rule, options, sizes up to a power of two, with or without gradients) those
that can do it are timed on that very call, and the fastest is remembered, in the process and in a
file of the user's cache. Nothing is said about it; ``explained`` tells those who ask. It knows
calls, clocks and a file; nothing of how a backend works.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

from dwindle.core.backends.call import Backend, Call
from dwindle.runfiles import whole
from dwindle.system import cache

Seconds = dict[str, float]
_ROUNDS = 3
_found: dict[str, Seconds] = {}


def fastest(call: Call, candidates: Mapping[str, Backend]) -> str:
    """The name of the fastest of ``candidates``, all of which can do the call; the first one where
    none can be run."""
    names = list(candidates)
    if len(names) == 1 or _cannot_run(call.query):
        return names[0]
    times = explained(call, candidates)
    return min(
        (name for name in names if name in times), key=lambda name: times[name], default=names[0]
    )


def explained(call: Call, candidates: Mapping[str, Backend]) -> Seconds:
    """Seconds that each candidate takes for calls of this class, from memory, the file, or by
    running them now."""
    key = described(call)
    if key not in _found:
        _found[key] = _read().get(key, {})
    missing = [name for name in candidates if name not in _found[key]]
    if missing:
        # All again: times of another day, with other work on the card, are not to be compared with.
        _found[key] = {name: _seconds(call, backend) for name, backend in candidates.items()}
        _write(key, _found[key])
    return _found[key]


def described(call: Call) -> str:
    """The class of a call, with the device and the versions that its times hold for."""
    b, h, t, d = call.query.shape
    sizes = [_rounded(n) for n in (b * h, t, call.key.shape[2])]
    options = (call.mask, call.bias, call.protected, call.source, call.rows)
    given = "".join("-" if x is None else "x" if x.shape[-2] == 1 else "X" for x in options)
    return " ".join(
        [
            _device(call.query.device),
            _versions(),
            f"{call.query.dtype}".removeprefix("torch."),
            f"units={sizes[0]} rows={sizes[1]} source={sizes[2]} head={d},{call.value.shape[3]}",
            f"groups={h // max(1, call.key.shape[1])} options={given}",
            f"{type(call.rule).__name__}{call.rule.renormalise:d}{call.rule.share_heads:d}",
            f"softcap={call.softcap > 0:d} dropout={call.dropout > 0:d} "
            f"gradients={call.differentiates():d}",
        ]
    )


def _rounded(n: int) -> int:
    """Up to a power of two."""
    return 1 << max(0, n - 1).bit_length()


def _device(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _versions() -> str:
    found = [f"torch={torch.__version__}"]
    for package in ("triton", "dwindle"):
        try:
            found.append(f"{package}={metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return " ".join(found)


def _cannot_run(query: Tensor) -> bool:
    """True if nothing can be timed now: a compiler looks on, a graph is being captured, or there
    are no numbers."""
    fake = type(query).__torch_dispatch__ is not Tensor.__torch_dispatch__
    if torch.compiler.is_compiling() or fake or not query.numel():
        return True
    return query.is_cuda and torch.cuda.is_current_stream_capturing()


def _seconds(call: Call, backend: Backend) -> float:
    """Shortest time of some runs, forward or both ways as the call will need it; infinite if it
    fails."""
    run = _forward_and_backward(call, backend) if call.differentiates() else _forward(call, backend)
    devices = [call.query.device] if call.query.is_cuda else []
    with torch.random.fork_rng(devices):  # what is tried must not change what is drawn
        try:
            run()  # compiles, allocates and warms up
            return min(_timed(run, call.query.device) for _ in range(_ROUNDS))
        except (RuntimeError, OSError):  # out of memory, most of all
            if call.query.is_cuda:
                torch.cuda.empty_cache()
            return math.inf


def _timed(run: Callable[[], Any], device: torch.device) -> float:
    _finish(device)
    start = clock()
    run()
    _finish(device)
    return clock() - start


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


clock = time.perf_counter


def _forward(call: Call, backend: Backend) -> Callable[[], Any]:
    return torch.no_grad()(lambda: backend.attention(call))


def _forward_and_backward(call: Call, backend: Backend) -> Callable[[], Any]:
    """A function that runs the call both ways on copies, so that no gradient gets into the caller's
    graph."""
    tensors = {name: getattr(call, name) for name in ("query", "key", "value", "bias")}
    copies: dict[str, Any] = {
        name: None if x is None else x.detach().requires_grad_(x.requires_grad)
        for name, x in tensors.items()
    }
    before = call.coverage and type(call.coverage)(*(x.detach() for x in call.coverage))
    copy = call._replace(**copies, coverage=before)
    wanted = [x for x in copies.values() if x is not None and x.requires_grad] or [
        copy.query.requires_grad_()
    ]

    def both() -> Any:
        with torch.enable_grad():
            context, _ = backend.attention(copy)
            return torch.autograd.grad(context, wanted, torch.ones_like(context), allow_unused=True)

    return both


def _file() -> Any:
    return cache.home() / "fastest.json"


def _read() -> dict[str, Seconds]:
    """Contents of the file; nothing if it is missing or was damaged."""
    try:
        read = json.loads(_file().read_text(encoding="utf-8"))
        return {
            str(key): {
                str(name): math.inf if value is None else float(value)
                for name, value in times.items()
            }
            for key, times in read.items()
        }
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _write(key: str, times: Seconds) -> None:
    """Add the times to the file, beside those that others have written by now. A cache that cannot
    be written is skipped."""
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        known = _read() | {key: times}
        finite = {
            k: {n: None if math.isinf(v) else v for n, v in found.items()}
            for k, found in known.items()
        }
        whole.write_json(_file(), finite)
    except OSError:
        pass
