"""Finds the compiled library that a wheel carries, or builds one on first use and keeps it in the
user's cache. Never breaks a run.

Where there is no compiler, or the build fails, one line on stderr says so once and ``library()`` is
None. This module knows no attention.
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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import torch

from dwindle.native import commands, vocabulary
from dwindle.system.cache import home

try:
    import fcntl
except ModuleNotFoundError:  # Windows: two processes may build the same at once
    fcntl = None  # type: ignore[assignment]

_HERE = Path(__file__).parent
_SECONDS = 600  # a build that takes longer is given up
_UNUSED = 30 * 24 * 3600  # seconds after which a library that nobody loaded is removed
_BUILD = ".build"  # how the folders end that builds are made in
_NATIVE = ["-march=native" if platform.machine() in ("x86_64", "AMD64") else "-mcpu=native"]


@cache
def library() -> Path | None:
    """The file of a library that can be loaded; None, after one line that says why, if there is
    none."""
    try:
        found = _carried() or _built()
        _load(found)
    except (OSError, subprocess.SubprocessError) as error:
        _say_once(f"no CPU kernel, a slower path is used: {error}")
        return None
    return found


def _carried() -> Path | None:
    """The library that the wheel brought for this processor, if it can be loaded here."""
    sets = list(commands.INSTRUCTIONS)
    capability = torch.backends.cpu.get_cpu_capability().lower()
    for name in sets[sets.index(capability) :] if capability in sets else []:
        file = _HERE / commands.file_name(name)
        with suppress(OSError):  # a C library older than the wheel's promise: build one instead
            if file.exists():
                _load(file)
                return file
    return None


def _load(file: Path) -> None:
    """Load it beside the OpenMP runtime of torch, so that there is one pool of threads and not
    two."""
    if os.name == "posix" and not hasattr(ctypes.CDLL(None), "GOMP_parallel"):
        for runtime in _openmp():
            ctypes.CDLL(runtime, mode=ctypes.RTLD_GLOBAL)
    ctypes.CDLL(str(file))


def _built() -> Path:
    """The library for this source, compiler and processor."""
    compiler = _compiler()
    version = _output([compiler, "--version"], seconds=60).stdout
    files = sorted(file for file in _HERE.iterdir() if file.suffix in (".cpp", ".h"))
    sources = [file.read_text(encoding="utf-8") for file in files]
    flags = [*commands.COMPILE, *_NATIVE, *_openmp()]
    parts = [*sources, vocabulary.header(), *flags, version, _processor()]
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    target = _cache() / f"kernel-{name}.so"
    if not _whole(target):
        with _alone(target):
            if not _whole(target):  # another process may have built it meanwhile
                _sweep(target)
                with tempfile.TemporaryDirectory(
                    prefix=f"{target.stem}.", suffix=_BUILD, dir=target.parent
                ) as folder:
                    _build(compiler, Path(folder), target)
    with suppress(OSError):
        os.utime(target)  # it is in use
    return target


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Let one process build and the others wait, where they start together: a build takes all
    cores."""
    with _lock(target).open("w") as file:
        if fcntl:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sweep(target: Path) -> None:
    """Remove what killed builds and old versions have left: the folders of builds whose lock is
    free or ours, and libraries that nobody loaded for a month."""
    own = _lock(target)
    for folder in target.parent.glob(f"kernel-*{_BUILD}"):
        lock = _lock(folder.with_name(folder.name.split(".")[0]))
        if fcntl and (lock == own or not _held(lock)):
            shutil.rmtree(folder, ignore_errors=True)
    for old in target.parent.glob("kernel-*.so"):
        with suppress(OSError):  # another process may have removed it
            if old != target and old.stat().st_mtime < time.time() - _UNUSED:
                for file in (old, _stamp(old), _lock(old)):
                    file.unlink(missing_ok=True)


def _lock(target: Path) -> Path:
    return target.with_suffix(".lock")


def _held(lock: Path) -> bool:
    """True if somebody has this lock."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _whole(target: Path) -> bool:
    """True if the library is as it was built: loading half of one would end the program."""
    stamp = _stamp(target)
    return (
        target.exists() and stamp.exists() and stamp.read_text(encoding="ascii") == _digest(target)
    )


def _stamp(target: Path) -> Path:
    """The file beside a library that holds its digest."""
    return target.with_suffix(".sha256")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _build(compiler: str, folder: Path, target: Path) -> None:
    """Compile in a folder beside the target and rename: nobody ever sees half a file."""
    _say("building the CPU kernel, once for this machine (about a minute)")
    start = time.monotonic()
    (folder / "vocabulary.h").write_text(vocabulary.header(), encoding="ascii")
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # side by side
        list(
            pool.map(
                lambda name: _run(commands.compiled(compiler, folder, _NATIVE, _HERE, name)),
                commands.SOURCES,
            )
        )
    libraries = ["-fopenmp", "-Wl,--as-needed", *_openmp()]
    _run(commands.linked(compiler, folder, libraries, folder / "kernel.so"))
    (folder / "stamp").write_text(_digest(folder / "kernel.so"), encoding="ascii")
    (folder / "stamp").replace(_stamp(target))
    (folder / "kernel.so").replace(target)
    _say(f"built in {time.monotonic() - start:.0f} s: {target}")


def _output(command: list[str], seconds: int, **changes: str) -> subprocess.CompletedProcess[str]:
    """Compilers speak the language of their user, in any encoding. ``changes`` are to the
    environment."""
    environment = os.environ | changes
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=seconds, env=environment
    )


def _run(command: list[str]) -> None:
    # the compiler's own temporary files go where a killed build is swept
    beside = str(Path(command[-1]).parent)
    done = _output(command, _SECONDS, TMPDIR=beside)
    if done.returncode:
        lines = [
            line for line in done.stderr.splitlines() if "error" in line
        ] or done.stderr.splitlines()
        raise OSError(f"{command[0]} failed: {(lines or ['it did not say why'])[0].strip()}")


def _openmp() -> list[str]:
    """Torch's own OpenMP runtime, where it brings one."""
    folder = Path(torch.__file__).parent / "lib"
    return [str(path) for path in sorted(folder.glob("libgomp*.so*"))[:1]]


def _compiler() -> str:
    for name in (os.environ.get("CXX", ""), "g++", "c++", "clang++"):
        if name and (found := shutil.which(name)):
            return found
    raise OSError("there is no C++ compiler; install g++ or clang++ to have it")


def _processor() -> str:
    """The processor for which ``native`` compiles."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    wanted = ("flags", "Features", "model name")
    return "\n".join([platform.machine(), *sorted({x for x in lines if x.startswith(wanted)})])


def _cache() -> Path:
    """The user's cache folder, or a fresh temporary one where that cannot be written to."""
    kept = home()
    try:
        kept.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(kept, os.W_OK):
            return kept
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="dwindle-"))


def _say(line: str) -> None:
    print(f"dwindle: {line}", file=sys.stderr)


@cache
def _say_once(line: str) -> None:
    """Print a line on stderr, only the first time."""
    _say(line)
