"""The machine and the software that something was run or measured with, and the processes that a
command was launched as (``torchrun``, ``accelerate launch``): the first one writes files, and the
others wait for it.

What only torch knows (threads, vectors, GPUs) is told once it is loaded: a command that never loads
it ran without.
"""

import contextlib
import functools
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import dwindle

_PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "numpy", "sacrebleu")


@functools.cache
def surroundings() -> dict[str, Any]:
    """The versions, the code's git state, the machine and the command of this process."""
    return {
        "versions": versions(),
        "git": git(Path(dwindle.__file__)),
        "machine": hardware(),
        "command": sys.argv,
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "dwindle": dwindle.__version__}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def hardware() -> dict[str, Any]:
    """The processor, and what of it may be used."""
    torch = sys.modules.get("torch")
    found = {"system": platform.platform(), "processor": _processor(), "cores": cores()}
    if torch is None:
        return found
    found |= {
        "threads": torch.get_num_threads(),
        "vectors": torch.backends.cpu.get_cpu_capability(),
    }
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return found | ({"gpus": gpus} if gpus else {})


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes() -> int:
    """Number of processes that this command was launched as."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Rank of this process among those."""
    return int(os.environ.get("RANK", "0"))


def local_rank() -> int:
    """Rank of this process among those on this machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def is_first() -> bool:
    """True if this process is the one that writes files."""
    return rank() == 0


def git(file: Path) -> dict[str, Any] | None:
    """The commit of a file of the code, and whether it was changed since; None outside git."""

    def ask(*arguments: str) -> str:
        command = ["git", "-C", str(file.parent), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        ask("ls-files", "--error-unmatch", file.name)
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
