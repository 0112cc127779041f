"""Builds the C++ kernel on first use, keeps it in the user's cache, and loads it. Never breaks a run.

Where there is no compiler, or the build fails, one line on stderr says so once and ``library()`` is None.
The source knows no torch, so that it compiles in seconds; this module knows no attention.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import torch

_HERE = Path(__file__).parent
_SECONDS = 600  # a build that takes longer is given up


class Problem(ctypes.Structure):
    """``struct Problem`` of work.h, field by field."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ["dtype", "B", "H", "Hk", "T", "S", "D", "Dv", "rows", "threads"]),
        *((name, ctypes.c_void_p) for name in ["q", "k", "v"]),
        *((name, ctypes.c_int64 * 3) for name in ["q_stride", "k_stride", "v_stride"]),
        ("bias", ctypes.c_void_p),
        ("bias_stride", ctypes.c_int64 * 4),
        ("mask", ctypes.c_void_p),
        ("mask_stride", ctypes.c_int64 * 4),
        ("kept", ctypes.c_void_p),
        ("kept_stride", ctypes.c_int64 * 3),
        *((name, ctypes.c_double) for name in ["scale", "softcap", "dropout"]),
        *((name, ctypes.c_int64) for name in ["seed", "mode", "kind1", "kind2", "detach_gate"]),
        *((name, ctypes.c_double) for name in ["s1", "p1", "s2", "p2"]),
        *((name, ctypes.POINTER(ctypes.c_double)) for name in ["terms1", "terms2"]),
        *((name, ctypes.c_void_p) for name in ["out", "total", "peak", "lse", "totals", "peaks", "dout"]),
        ("dout_stride", ctypes.c_int64 * 3),
        *((name, ctypes.c_void_p) for name in ["dq", "dk", "dv", "dbias"]),
        ("dbias_stride", ctypes.c_int64 * 4),
        *((name, ctypes.c_void_p) for name in ["dtotal", "dpeak"]),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """The loaded kernel, built if need be; None, after one line that says why, where that is not possible."""
    try:
        loaded = ctypes.CDLL(str(_built()))
        loaded.dwindle_problem_size.restype = ctypes.c_long
        if loaded.dwindle_problem_size() != ctypes.sizeof(Problem):
            raise OSError("the kernel and build.py disagree about their common structure")
    except (OSError, subprocess.SubprocessError) as error:
        _say(f"no CPU kernel, the slower chunked path is used: {error}")
        return None
    for function in (loaded.dwindle_forward, loaded.dwindle_backward):
        function.argtypes, function.restype = [ctypes.POINTER(Problem)], ctypes.c_int
    return loaded


def _built() -> Path:
    """The shared library for this source, compiler and processor."""
    compiler = _compiler()
    sources = [*sorted(_HERE.glob("*.h")), _HERE / "kernel.cpp"]
    flags = _flags()
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=60).stdout
    parts = [*(p.read_text(encoding="utf-8") for p in sources), *flags, version, _processor()]
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    target = _cache() / f"kernel-{name}.so"
    if not target.exists():
        _compile([compiler, *flags], target)
    return target


def _compile(command: list[str], target: Path) -> None:
    """Compile beside the target and rename: two processes may do so at once, neither sees half a file."""
    handle, unfinished = tempfile.mkstemp(suffix=".so", dir=target.parent)
    os.close(handle)
    _say("building the CPU kernel, once for this machine (some 20 seconds)")
    start = time.monotonic()
    # torch's own OpenMP runtime comes first, so that there is one pool of threads and not two.
    openmp = [str(p) for p in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*"))[:1]]
    try:
        done = subprocess.run(
            [*command, str(_HERE / "kernel.cpp"), *openmp, "-o", unfinished],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
            raise OSError(f"{command[0]} failed: {(lines or ['it did not say why'])[0].strip()}")
        Path(unfinished).replace(target)
    finally:
        Path(unfinished).unlink(missing_ok=True)
    _say(f"built in {time.monotonic() - start:.0f} s: {target}")


def _compiler() -> str:
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        if name and (found := shutil.which(name)):
            return found
    raise OSError("there is no C++ compiler; install g++ or clang++ to have it")


def _flags() -> list[str]:
    native = "-march=native" if platform.machine() in ("x86_64", "AMD64") else "-mcpu=native"
    common = "-std=c++20 -O3 -fno-math-errno -fno-trapping-math -fopenmp -fPIC -shared -Wl,--as-needed -w"
    return [*common.split(), native]


def _processor() -> str:
    """What ``native`` means here."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    wanted = ("flags", "Features", "model name")
    return "\n".join([platform.machine(), *sorted({x for x in lines if x.startswith(wanted)})])


def _cache() -> Path:
    """The user's cache folder, or a fresh temporary one where that cannot be written to."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dwindle"
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(home, os.W_OK):
            return home
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="dwindle-"))


def _say(line: str) -> None:
    print(f"dwindle: {line}", file=sys.stderr)
