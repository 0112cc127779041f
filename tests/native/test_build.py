"""The compiled library: carried by a wheel, built at first use, or not to be had."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import dwindle
from dwindle.core.backends import cpu
from dwindle.native import build
from dwindle.native.functions import KERNEL, Functions, as_doubles
from tests.core import backend_matrix as matrix

needs_kernel = pytest.mark.skipif(not KERNEL.available, reason="no C++ compiler here")
RULE = "dydim:log,power(0.5)"


@pytest.fixture
def nothing_carried(monkeypatch):
    """As if the wheel had brought no library, and nobody had asked for one yet."""
    monkeypatch.setattr(build, "_carried", lambda: None)
    build.library.cache_clear()
    yield
    build.library.cache_clear()


@pytest.fixture
def carried(monkeypatch, tmp_path):
    """A folder with the libraries of a wheel; the names of those that were loaded from it."""
    for name in ("avx2", "avx512"):
        (tmp_path / f"kernel-{name}.so").touch()
    loaded = []
    monkeypatch.setattr(build, "_HERE", tmp_path)
    monkeypatch.setattr(build, "_load", lambda file: loaded.append(file.name))
    build.library.cache_clear()
    yield loaded
    build.library.cache_clear()


@pytest.mark.parametrize(
    ("capability", "file"),
    [("AVX512", "kernel-avx512.so"), ("AVX2", "kernel-avx2.so"), ("DEFAULT", None)],
)
def test_the_processor_picks_among_the_carried(carried, monkeypatch, capability, file):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    found = build._carried()
    assert (found and found.name) == file
    assert carried == ([file] if file else [])


def test_a_carried_library_that_cannot_be_loaded_is_passed_over(carried, monkeypatch):
    def load(file):
        if "512" in file.name:
            raise OSError("version GLIBC_9 not found")

    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(build, "_load", load)
    assert build._carried().name == "kernel-avx2.so"


def test_with_a_carried_library_no_compiler_is_looked_for(carried, monkeypatch, capsys):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    monkeypatch.setattr(build, "_compiler", lambda: pytest.fail("a compiler was looked for"))
    assert build.library().name == "kernel-avx2.so"
    assert not capsys.readouterr().err


@pytest.mark.usefixtures("nothing_carried")
def test_no_compiler_says_so_once_and_goes_on(monkeypatch, capsys):
    monkeypatch.setattr(build.shutil, "which", lambda _: None)
    monkeypatch.setattr(cpu, "KERNEL", Functions())
    q, k, v = matrix.tensors(0, (1, 2, 2, 3, 5, 8, 8), torch.float32)
    contexts = [dwindle.attention(q, k, v, rule=RULE)[0] for _ in range(2)]
    said = capsys.readouterr().err
    assert said.count("dwindle:") == 1
    assert "no C++ compiler" in said
    torch.testing.assert_close(
        contexts[0], dwindle.attention(q, k, v, rule=RULE, backend="eager")[0]
    )
    with pytest.raises(ValueError, match="not built"):
        dwindle.attention(q, k, v, rule=RULE, backend="cpu")


@pytest.mark.usefixtures("nothing_carried")
def test_a_failing_build_says_why(monkeypatch, capsys, tmp_path):
    compiler = tmp_path / "c++"
    compiler.write_text("#!/bin/sh\necho 'kernel.cpp:1: error: no sun today' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert build.library() is None
    assert "no sun today" in capsys.readouterr().err
    assert {file.suffix for file in (tmp_path / "cache" / "dwindle").iterdir()} == {".lock"}


@pytest.mark.usefixtures("nothing_carried")
def test_a_compiler_that_speaks_another_encoding(monkeypatch, capsys, tmp_path):
    compiler = tmp_path / "c++"
    compiler.write_bytes(
        b"#!/bin/sh\nprintf 'Versi\xf3n \xff: error: sin sol\\n' | tee /dev/stderr\nexit 1\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert build.library() is None
    assert "sin sol" in capsys.readouterr().err


@pytest.mark.skipif(
    build.fcntl is None, reason="without locks nobody knows whether a build still runs"
)
def test_what_a_killed_build_left_is_swept(tmp_path):
    """The next build removes the folder of one that was killed, but not that of one
    that runs."""
    cache = tmp_path / "cache" / "dwindle"
    compiler = tmp_path / "c++"
    half = 'for last; do :; done\n: > "$(dirname "$last")/half.o"\nexec sleep 60 >&- 2>&-\n'
    compiler.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit\n{half}')
    compiler.chmod(0o755)
    program = (
        "from dwindle.native import build; build._processor = lambda: '{}'; "
        "build._carried = lambda: None; build.library()"
    )
    environment = os.environ | {"CXX": str(compiler), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def building(processor: str) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-c", program.format(processor)],
            env=environment,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def folders() -> set[Path]:
        return {file.parent for file in cache.glob("*/half.o")}

    def wait_for(count: int) -> None:
        end = time.monotonic() + 60
        while len(folders()) != count and time.monotonic() < end:
            time.sleep(0.05)
        assert len(folders()) == count

    running = []
    try:
        for count, processor in enumerate(("killed", "going on"), start=1):
            running.append(building(processor))
            wait_for(count)
        killed = folders()
        os.killpg(running[0].pid, signal.SIGKILL)
        running[0].wait()
        assert folders() == killed
        compiler.write_text("#!/bin/sh\nexit 1\n")
        last = building("new")
        last.wait(60)
        assert len(folders()) == 1
        assert not [file for file in cache.iterdir() if file.suffix == ".so"]
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@needs_kernel
def test_a_truncated_library_is_built_again(monkeypatch, tmp_path):
    """Half a shared library would end the program when it is loaded."""
    whole = build.library()
    monkeypatch.setattr(build, "_cache", lambda: tmp_path)
    built = []
    monkeypatch.setattr(build, "_build", lambda compiler, folder, target: built.append(target))
    target = build._built()
    assert built == [target]  # there was none
    target.write_bytes(whole.read_bytes())
    build._stamp(target).write_text(build._digest(whole))
    assert build._built() == target
    assert len(built) == 1
    target.write_bytes(whole.read_bytes()[:-5000])
    build._built()
    assert len(built) == 2


def test_libraries_that_nobody_loads_any_more_are_removed(tmp_path):
    ages = {"old": 31, "recent": 29}
    for name, days in ages.items():
        for suffix in (".so", ".sha256", ".lock"):
            file = tmp_path / f"kernel-{name}{suffix}"
            file.touch()
            os.utime(file, (time.time() - days * 86400,) * 2)
    build._sweep(tmp_path / "kernel-new.so")
    assert {file.stem for file in tmp_path.iterdir()} == {"kernel-recent"}


@needs_kernel
def test_a_library_that_is_used_stays(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_cache", lambda: tmp_path)
    monkeypatch.setattr(build, "_whole", lambda _: True)
    monkeypatch.setattr(build.os, "utime", lambda _: None)
    target = build._built()
    monkeypatch.undo()
    monkeypatch.setattr(build, "_cache", lambda: tmp_path)
    monkeypatch.setattr(build, "_whole", lambda _: True)
    target.touch()
    os.utime(target, (0, 0))
    assert build._built() == target
    build._sweep(tmp_path / "kernel-new.so")
    assert target.exists()


@needs_kernel
def test_no_memory_is_an_error_and_not_the_end():
    q, k, v = matrix.tensors(0, (1, 1, 1, 1, 1, 8, 8), torch.float32)
    rows = 2**44  # more than a processor has addresses for
    sizes = (1, 1, 1, rows, 1, 8, 8, 1, rows, *(0,) * 30)
    with pytest.raises(MemoryError, match="no memory for attention"):
        KERNEL.run("attention", q.dtype, sizes, (q, k, v, *(None,) * 18), as_doubles((0.0,) * 31))
