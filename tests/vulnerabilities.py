"""``make vulnerabilities``: known vulnerabilities of the pinned versions, from the database that
pip-audit asks.

A finding fails. A database that does not answer is told in one sentence and does not fail: nothing
was checked then, so it says neither that there are vulnerabilities nor that there are none.
Anything else that goes wrong fails as pip-audit fails.
"""

import subprocess
import sys
from pathlib import Path

HOME = Path("build/audit")
AUDIT = ["--strict", "--disable-pip", "--require-hashes", "-r", "constraints.lock"]
SILENCE = (
    "Could not connect",
    "ConnectionError",
    "ConnectTimeout",
    "ReadTimeout",
    "ProxyError",
    "SSLError",
    "Client Error",
    "Server Error",
    "Max retries exceeded",
)
"""Words of pip-audit and its HTTP library where the database did not answer."""


def main() -> int:
    subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
    pip = [
        str(HOME / "bin" / "pip"),
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "pip-audit",
    ]
    if subprocess.run(pip).returncode:
        return _unasked("pip-audit could not be installed")
    return ask([str(HOME / "bin" / "pip-audit"), *AUDIT])


def ask(command: list[str]) -> int:
    """Run pip-audit, show what it says, and give the exit code: its own, but 0 if nobody
    answered."""
    done = subprocess.run(command, capture_output=True, text=True)
    found = done.stdout.strip()  # a table of findings; empty where it gave up
    if done.returncode and not found and any(words in done.stderr for words in SILENCE):
        return _unasked(done.stderr.strip().splitlines()[-1])
    print(found)
    print(done.stderr, end="", file=sys.stderr)
    return done.returncode


def _unasked(why: str) -> int:
    print(
        "No database of vulnerabilities could be reached, so nothing was checked: this is no "
        "finding and no all-clear; "
        f"type make vulnerabilities again with a network that reaches one ({why})",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
