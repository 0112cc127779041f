"""The command, run in this process."""

import pytest

from dwindle.cli.main import main
from dwindle.models import place


@pytest.fixture(autouse=True)
def _no_hub(monkeypatch):
    """Tests reach no network: every name is taken to be on the hub."""
    monkeypatch.setattr(place, "absence", lambda name, kind: None)


@pytest.fixture
def run(capsys):
    """Runs ``dwindle ARGUMENTS`` and gives its exit code, what it printed, and what it
    complained."""

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return run
