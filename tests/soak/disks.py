"""Full and read-only disks: one sentence, exit code 2, and no half of a file."""

import resource
import subprocess
import sys
from pathlib import Path
from random import Random

from tests import folders


def trial(random: Random, folder: Path) -> int:
    first, second = folders.run(folder / "a", seed=1), folders.run(folder / "b", seed=2)
    most = random.choice([0, 100, 4096, 65536])
    verb = random.choice(["report", "score"])
    out = folder / "page.html"
    command = [sys.executable, "-m", "dwindle.cli.main"]
    command += ["report", str(first), str(second), "--out", str(out)] if verb == "report" else ["score", str(first)]

    def no_room() -> None:
        """A file may not grow beyond this: what a full disk does, for one process."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    before = {file: file.read_bytes() for file in first.rglob("*") if file.is_file()}
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=no_room)
    assert done.returncode in (0, 2), (
        f"{verb} with room for {most} bytes: code {done.returncode}: {done.stderr[-1500:]}"
    )
    assert "Traceback" not in done.stderr, done.stderr[-1500:]
    if done.returncode == 2 and verb == "report":
        assert not out.exists(), "half a page"
    kept = {file: content for file, content in before.items() if file.name != "scores.json" or done.returncode == 2}
    assert all(file.read_bytes() == content for file, content in kept.items()), "a file was changed"
    assert not list(folder.rglob("*.tmp")), "a temporary file is left"
    return 4
