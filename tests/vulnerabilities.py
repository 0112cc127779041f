"""``make vulnerabilities``: known vulnerabilities of the pinned versions, from the database that
pip-audit asks.

A finding fails. A database that does not answer, or knows none of the packages (as a mirror without
one), is told in one sentence and does not fail: nothing was checked then, so it says neither that
there are vulnerabilities nor that there are none. A single package that could not be checked fails,
and so does anything else that goes wrong.
"""

import json
import subprocess
import sys
from pathlib import Path

HOME = Path("build/audit")
AUDIT = ["--format", "json", "--disable-pip", "--require-hashes", "-r", "constraints.lock"]
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
    """Run pip-audit, say what it found, and give the exit code: 0 also if nobody answered."""
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.strip():  # it gave up
        if any(words in done.stderr for words in SILENCE):
            return _unasked(done.stderr.strip().splitlines()[-1])
        print(done.stderr, end="", file=sys.stderr)
        return done.returncode or 1
    packages = json.loads(done.stdout)["dependencies"]
    skipped = [package["skip_reason"] for package in packages if "skip_reason" in package]
    if packages and len(skipped) == len(packages):
        return _unasked(skipped[0])
    findings = [
        f"{package['name']} {package['version']}: {found['id']}, mended in "
        f"{', '.join(found['fix_versions']) or 'no version yet'}"
        for package in packages
        for found in package.get("vulns", ())
    ]
    print(
        "\n".join([*findings, *skipped]) or f"no known vulnerabilities in {len(packages)} packages"
    )
    return int(bool(findings or skipped))


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
