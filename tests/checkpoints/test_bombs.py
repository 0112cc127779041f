"""Files that claim more than they hold are refused in a sentence, in a process that has no memory
for the claim."""

import subprocess
import sys

import pytest

from tests.checkpoints import bombs


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_no_small_file_takes_much_memory_or_time(tmp_path):
    bombs.write(tmp_path / "bombs")
    done = subprocess.run(
        [sys.executable, "-m", "tests.checkpoints.bombs", str(tmp_path / "bombs")],
        capture_output=True,
        text=True,
    )
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert set(said) == {file.name for file in (tmp_path / "bombs").iterdir()}, done.stderr[-2000:]
    # One mapping that is the state of many objects is held once.
    assert {name: told for name, told in said.items() if not told.startswith("refused: ")} == {
        "built.pkl": "read",
        "built.pt": "read",
    }
    assert not [
        name
        for name, told in said.items()
        if "memory than there is" in told or "Unable to allocate" in told
    ]
