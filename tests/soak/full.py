"""A run whose disk becomes full at any moment of training or decoding: one sentence, and the same
bytes later."""

import contextlib
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from tests.soak.kills import RECIPE, SAME, command, digest, environment, whole

LARGE = 1 << 28


def trial(random: Random, folder: Path) -> int:
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE, encoding="utf-8")
    whole(recipe, folder / "alone")
    used = sum(file.stat().st_size for file in (folder / "alone").rglob("*") if file.is_file())
    checks = 0
    with _disk(folder / "disk", used // 8) as shrunk:
        for share in sorted(random.uniform(0.1, 3) for _ in range(3)):
            done = subprocess.run(
                command(recipe, folder / "disk" / "run"),
                capture_output=True,
                text=True,
                env=environment(),
                preexec_fn=shrunk(int(share * used)),
            )
            told = f"room for {share:.2f} of the run: code {done.returncode}: {done.stderr[-2000:]}"
            assert done.returncode in (0, 2), told
            assert "Traceback" not in done.stderr, told
            assert done.returncode == 0 or done.stderr.strip().split("\n")[-1].startswith(
                "dwindle: "
            ), told
            checks += 3
        shrunk(LARGE)
        whole(recipe, folder / "disk" / "run")
        for name in SAME:
            assert digest(folder / "disk" / "run" / name) == digest(folder / "alone" / name), (
                f"another {name}"
            )
        left = sorted(file.name for file in (folder / "disk" / "run").iterdir())
        right = sorted(file.name for file in (folder / "alone").iterdir())
        assert left == right, f"{left} instead of {right}"
    return checks + len(SAME) + 1


@contextlib.contextmanager
def _disk(folder: Path, size: int) -> Iterator[Callable[[int], Callable[[], None] | None]]:
    """A disk whose size can be set; where only the administrator may mount one, a limit of the size
    of files."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True).returncode == 0

    def shrunk(most: int) -> Callable[[], None] | None:
        if not mounted:
            return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        subprocess.run(["mount", "-o", f"remount,size={most}", str(folder)], check=True)
        return None

    try:
        yield shrunk
    finally:
        if mounted:
            for _ in range(20):  # a process that ends may still hold a file
                if subprocess.run(["umount", str(folder)], capture_output=True).returncode == 0:
                    break
                time.sleep(0.2)
