"""The pinned versions and their hashes: two files that say the same."""

import re
from pathlib import Path

HERE = Path(__file__).parents[1]


def pinned(file: str) -> dict[str, str]:
    lines = (HERE / file).read_text(encoding="utf-8").splitlines()
    pins = (re.match(r"([\w.-]+)==([\w.+!]+)", line) for line in lines)
    return {pin[1].lower().replace("_", "-"): pin[2] for pin in pins if pin}


def test_every_version_has_its_hashes():
    versions = pinned("constraints.txt")
    versions.pop("torch")  # each machine takes the build that suits it
    assert pinned("constraints.lock") == versions
    # A marker such as sys_platform == 'linux' has spaces around its sign, a version has none.
    entries = re.split(r"(?<=\S)==(?=\S)", (HERE / "constraints.lock").read_text(encoding="utf-8"))[
        1:
    ]
    assert all("--hash=sha256:" in entry for entry in entries)
