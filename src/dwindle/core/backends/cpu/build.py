"""Builds a C++ kernel on first use, keeps it in the user's cache, and loads it. Never breaks a run.

Where there is no compiler, or the build fails, one line on stderr says so once and ``library()`` is None. A kernel is a
folder: kernel.cpp knows no torch; op.cpp, where there is one, has its operators and only needs the headers that every
torch brings. They are compiled side by side. This module knows no attention.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch

try:
    import fcntl
except ModuleNotFoundError:  # Windows: two processes may build the same at once
    fcntl = None  # type: ignore[assignment]

_HERE = Path(__file__).parent
_CORE = _HERE.parents[1]
_TORCH = Path(torch.__file__).parent
_SECONDS = 600  # a build that takes longer is given up
_FLAGS = ["-std=c++20", "-fopenmp", "-fPIC", "-w", "-Wl,--as-needed"]
_NATIVE = "-march=native" if platform.machine() in ("x86_64", "AMD64") else "-mcpu=native"
_FOR_KERNEL = ["-O3", "-fno-math-errno", "-fno-trapping-math", _NATIVE]
_ABI = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
_FOR_TORCH = ["-O1", _ABI, f"-I{_TORCH / 'include'}", f"-I{_TORCH / 'include/torch/csrc/api/include'}"]


@cache
def library(source: Path = _HERE) -> Path | None:
    """The loaded kernel of a folder, built if need be; None, after one line that says why, where it cannot be had."""
    try:
        built = _built(source)
        torch.ops.load_library(built)  # type: ignore[no-untyped-call]
    except (OSError, subprocess.SubprocessError) as error:
        _say_once(f"no CPU kernel, a slower path is used: {error}")
        return None
    return built


def _built(source: Path) -> Path:
    """The shared library for this source, compiler, processor and torch."""
    compiler = _compiler()
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=60).stdout
    files = [*sorted(source.glob("*.[ch]*")), *sorted(_CORE.rglob("*.h"))]  # any kernel may include the core's headers
    sources = [p.read_text(encoding="utf-8") for p in files]
    flags = [*_FLAGS, *_FOR_KERNEL, *_FOR_TORCH]
    parts = [*sources, *flags, version, _processor(), torch.__version__]
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    target = _cache() / f"kernel-{name}.so"
    if not _whole(target):
        with _alone(target), tempfile.TemporaryDirectory(dir=target.parent) as folder:
            if not _whole(target):  # another process may have built it meanwhile
                _build(compiler, source, Path(folder), target)
    return target


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Where processes start together, one builds and the others wait: a build takes all cores for itself."""
    with target.with_suffix(".lock").open("w") as file:
        if fcntl:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _whole(target: Path) -> bool:
    """Whether it is what was built: loading half a library would end the program."""
    stamp = _stamp(target)
    return target.exists() and stamp.exists() and stamp.read_text(encoding="ascii") == _digest(target)


def _stamp(target: Path) -> Path:
    """The file beside a library that holds its digest."""
    return target.with_suffix(".sha256")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _build(compiler: str, source: Path, folder: Path, target: Path) -> None:
    """Compile in a folder beside the target and rename: nobody ever sees half a file."""
    _say("building the CPU kernel, once for this machine (some 30 seconds)")
    start = time.monotonic()
    compile_ = [compiler, *_FLAGS, "-c"]
    halves = [
        [*compile_, *flags, str(source / f"{name}.cpp"), "-o", str(folder / f"{name}.o")]
        for name, flags in (("op", _FOR_TORCH), ("kernel", _FOR_KERNEL))
        if (source / f"{name}.cpp").exists()
    ]
    with ThreadPoolExecutor() as pool:  # both at once
        list(pool.map(_run, halves))
    _run([compiler, *_FLAGS, "-shared", *(half[-1] for half in halves), *_libraries(), "-o", str(folder / "kernel.so")])
    (folder / "stamp").write_text(_digest(folder / "kernel.so"), encoding="ascii")
    (folder / "stamp").replace(_stamp(target))
    (folder / "kernel.so").replace(target)
    _say(f"built in {time.monotonic() - start:.0f} s: {target}")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        raise OSError(f"{command[0]} failed: {(lines or ['it did not say why'])[0].strip()}")


def _libraries() -> list[str]:
    """Torch's, its own OpenMP runtime first, so that there is one pool of threads and not two."""
    folder = _TORCH / "lib"
    found = [sorted(folder.glob(pattern))[:1] for pattern in ("libgomp*.so*", "libtorch_cpu.*", "libc10.*")]
    return [str(path) for paths in found for path in paths]


def _compiler() -> str:
    for name in (os.environ.get("CXX", ""), "g++", "c++", "clang++"):
        if name and (found := shutil.which(name)):
            return found
    raise OSError("there is no C++ compiler; install g++ or clang++ to have it")


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


@cache
def _say_once(line: str) -> None:
    """What is wrong is often the same for every kernel."""
    _say(line)
