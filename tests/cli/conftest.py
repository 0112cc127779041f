"""The command, run in this process."""

import pytest

from dwindle.cli.main import main


@pytest.fixture
def run(capsys):
    """Runs ``dwindle ARGUMENTS`` and gives its exit code, what it printed, and what it complained."""

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return run
