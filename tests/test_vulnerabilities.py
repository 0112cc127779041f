"""The three ends of an audit: findings, a database that is silent, a mistake of ours. Asks no
database."""

import sys

import pytest

from tests import vulnerabilities

FINDING = (
    "Name Version ID           Fix Versions\n---- ------- ------------ ------------\nflask 0.5 "
    "PYSEC-2019-179 1.0"
)


def auditor(out: str = "", complaint: str = "", code: int = 0) -> list[str]:
    """A command that ends as pip-audit does."""
    says = (
        f"import sys; sys.stdout.write({out!r}); sys.stderr.write({complaint!r}); sys.exit({code})"
    )
    return [sys.executable, "-S", "-c", says]


@pytest.mark.parametrize(
    "complaint",
    [
        "ERROR:pip_audit._cli:Could not connect to PyPI's vulnerability feed\n",
        "Traceback (most recent call last):\nrequests.exceptions.ConnectionError: Max retries "
        "exceeded with url: /x\n",
        "ERROR:pip_audit._cli:403 Client Error: Forbidden for url: x\n",
    ],
)
def test_silence_is_one_sentence_and_no_failure(complaint, capsys):
    assert vulnerabilities.ask(auditor(complaint=complaint, code=1)) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "nothing was checked: this is no finding and no all-clear" in said


def test_a_finding_fails(capsys):
    # Even where another package's answer did not come.
    found = auditor(FINDING, "Found 1 known vulnerability; ConnectionError for another\n", 1)
    assert vulnerabilities.ask(found) == 1
    assert "PYSEC-2019-179" in capsys.readouterr().out


def test_a_mistake_of_ours_fails(capsys):
    assert (
        vulnerabilities.ask(auditor(complaint="ERROR: constraints.lock: no hash for x\n", code=1))
        == 1
    )
    assert "no hash for x" in capsys.readouterr().err


def test_all_clear(capsys):
    assert vulnerabilities.ask(auditor(complaint="No known vulnerabilities found\n")) == 0
    assert "No known vulnerabilities found" in capsys.readouterr().err
