"""Compiles the library of ``dwindle/native`` for every instruction set and puts it into the wheel.

Asked for by ``HATCH_BUILD_HOOK_ENABLE_CUSTOM=true``, as ``make release`` does on Linux x86-64.
Without it the wheel is pure Python, and the library is compiled at first use.
"""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TAG = "py3-none-linux_x86_64"
"""The files know no Python. How old a Linux may be is found out, and written, by ``auditwheel``."""


class Kernel(BuildHookInterface):
    """The build hook, as hatchling looks for it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the files that go into the wheel."""
        source = Path(self.root) / "src/dwindle/native"
        sys.path.insert(0, str(source))  # these two need neither torch nor the package around them
        import commands
        import vocabulary

        self.folder = tempfile.TemporaryDirectory()
        jobs = []
        for name, flags in commands.INSTRUCTIONS.items():
            place = Path(self.folder.name, name)
            place.mkdir()
            (place / "vocabulary.h").write_text(vocabulary.header(), encoding="ascii")
            jobs += [
                commands.compiled(_compiler(), place, flags, source, file)
                for file in commands.SOURCES
            ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(_run, jobs))
        for name in commands.INSTRUCTIONS:
            file = Path(self.folder.name, commands.file_name(name))
            _run(commands.linked(_compiler(), file.parent / name, ["-Wl,--as-needed"], file))
            build_data["force_include"][str(file)] = f"dwindle/native/{file.name}"
        build_data["pure_python"] = False
        build_data["tag"] = TAG

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled."""
        self.folder.cleanup()


def _compiler() -> str:
    """GCC: what clang compiles wants an OpenMP runtime of its own."""
    return os.environ.get("CXX", "g++")


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)
