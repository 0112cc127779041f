"""The machine and the software: the git state is that of the code."""

import subprocess

from dwindle.system import machine


def test_the_git_state_is_that_of_the_code(tmp_path):
    def git(*arguments):
        subprocess.run(
            ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
            check=True,
        )

    file = tmp_path / "code.py"
    file.write_text("1\n")
    assert machine.git(file) is None
    git("init", "-q")
    assert machine.git(file) is None  # not tracked
    git("add", ".")
    git("commit", "-qm", "one")
    clean = machine.git(file)
    assert len(clean["commit"]) == 40
    assert not clean["dirty"]
    file.write_text("2\n")
    assert machine.git(file) == {"commit": clean["commit"], "dirty": True}
