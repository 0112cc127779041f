"""The ends of an audit: findings, a database that is silent or knows nothing, a package that was
left out, a mistake of ours. Asks no database."""

import json
import sys

import pytest

from tests import vulnerabilities

VULNERABLE = {
    "name": "flask",
    "version": "0.5",
    "vulns": [{"id": "PYSEC-2019-179", "fix_versions": ["1.0"]}],
}
CLEAR = {"name": "numpy", "version": "2.0", "vulns": []}
LEFT_OUT = {"name": "absl-py", "skip_reason": "Dependency not found on PyPI: absl-py (2.5.1)"}


def answer(*packages: dict[str, object]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


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


def test_a_database_that_knows_no_package_checked_nothing(capsys):
    """pip-audit says "no known vulnerabilities" then, of packages that it has skipped."""
    skipped = auditor(answer(LEFT_OUT, LEFT_OUT), "No known vulnerabilities found\n")
    assert vulnerabilities.ask(skipped) == 0
    said = capsys.readouterr()
    assert not said.out
    assert said.err.count("\n") == 1
    assert "nothing was checked: this is no finding and no all-clear" in said.err


@pytest.mark.parametrize(
    ("packages", "says"),
    [
        ((VULNERABLE, CLEAR), "flask 0.5: PYSEC-2019-179, mended in 1.0"),
        ((VULNERABLE, LEFT_OUT), "PYSEC-2019-179"),
        ((CLEAR, LEFT_OUT), "not found on PyPI: absl-py"),
    ],
)
def test_a_finding_or_a_package_left_out_fails(packages, says, capsys):
    assert vulnerabilities.ask(auditor(answer(*packages), "Found something\n", 1)) == 1
    assert says in capsys.readouterr().out


def test_a_mistake_of_ours_fails(capsys):
    assert (
        vulnerabilities.ask(auditor(complaint="ERROR: constraints.lock: no hash for x\n", code=1))
        == 1
    )
    assert "no hash for x" in capsys.readouterr().err


def test_all_clear(capsys):
    assert vulnerabilities.ask(auditor(answer(CLEAR), "No known vulnerabilities found\n")) == 0
    assert "no known vulnerabilities in 1 packages" in capsys.readouterr().out
