"""Full and read-only disks: one sentence, exit code 2, and no half of a file."""

import contextlib
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from tests import folders

ROOM = [0, 100, 4096, 65536]


def trial(random: Random, folder: Path) -> int:
    inputs, outs = folder / "inputs", folder / "outs"
    first, second = folders.run(inputs / "a", seed=1), folders.run(inputs / "b", seed=2)
    outs.mkdir()
    disk = random.choice([_full, _read_only, _no_longer_files])
    verb = random.choice(["report", "score"])
    with disk(random, first if verb == "score" else outs) as before_start:
        command = [sys.executable, "-m", "dwindle.cli.main"]
        if verb == "report":
            command += ["report", str(first), str(second), "--out", str(outs / "page.html")]
        else:
            command += ["score", str(first)]
        before = {file: file.read_bytes() for file in inputs.rglob("*") if file.is_file()}
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=before_start)
        told = (
            f"{verb} on a disk that is {disk.__name__}: code {done.returncode}: "
            f"{done.stderr[-1500:]}"
        )
        assert done.returncode in (0, 2), told
        assert "Traceback" not in done.stderr, told
        assert not (done.returncode == 2 and (outs / "page.html").exists()), "half a page"
        kept = {
            f: content
            for f, content in before.items()
            if f.name != "scores.json" or done.returncode == 2
        }
        assert all(file.read_bytes() == content for file, content in kept.items()), (
            "a file was changed"
        )
        left = {file.name for file in folder.rglob("*") if file.is_file()} - {
            file.name for file in before
        }
        assert left <= {"page.html", "scores.json"}, f"left behind: {left}"
    return 5


@contextlib.contextmanager
def _mounted(folder: Path, size: int) -> Iterator[bool]:
    """A small disk in the place of the folder, with its files; False where only the administrator
    may do so."""
    saved = folder.with_name(folder.name + ".saved")
    shutil.copytree(folder, saved)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True).returncode == 0
    try:
        if mounted:
            shutil.copytree(saved, folder, dirs_exist_ok=True)
        shutil.rmtree(saved)
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


@contextlib.contextmanager
def _full(random: Random, folder: Path) -> Iterator[Callable[[], None] | None]:
    used = sum(file.stat().st_size + 4096 for file in folder.rglob("*") if file.is_file())
    with _mounted(folder, used + 16384 + random.choice(ROOM)) as mounted:
        yield None if mounted else lambda: _limit(random.choice(ROOM))


@contextlib.contextmanager
def _read_only(random: Random, folder: Path) -> Iterator[Callable[[], None] | None]:
    with _mounted(folder, 1 << 24) as mounted:
        if mounted:
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        yield None if mounted else lambda: _limit(0)


@contextlib.contextmanager
def _no_longer_files(random: Random, folder: Path) -> Iterator[Callable[[], None] | None]:
    most = random.choice(ROOM)
    yield lambda: _limit(most)


def _limit(most: int) -> None:
    """No file may grow beyond this: what a full disk does, for one process."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
