"""``python -m tests.release v0.2.0``: whether a tag, the package, the citation and the changelog
name one version.

The version stands in ``dwindle.__version__``, which metrics write into their signatures and caches
into their keys: it changes with a release and not with a commit. The tag of a release must agree
with it.
"""

import re
import sys
from pathlib import Path

HOME = Path(__file__).parents[1]


def problems(tag: str | None = None) -> list[str]:
    """What disagrees, a sentence each. Without a tag, the section of the changelog may be of a
    release to come."""
    version = _found("src/dwindle/__init__.py", r'^__version__ = "(.+)"$')
    wrong = []
    if tag is not None and tag != f"v{version}":
        wrong.append(f"the tag is {tag}, but the package is {version}")
    if (cited := _found("CITATION.cff", r"^version: (.+)$")) != version:
        wrong.append(f"CITATION.cff says {cited}, but the package is {version}")
    section = _found("CHANGELOG.md", r"^## (.+)$")
    dated = re.fullmatch(rf"{re.escape(version)}, \d{{4}}-\d\d-\d\d", section)
    if not dated and (tag is not None or section != f"{version}, not released yet"):
        wrong.append(
            f"the first section of CHANGELOG.md is {section!r}: name {version} and the date of "
            "the release"
        )
    return wrong


def _found(file: str, pattern: str) -> str:
    match = re.search(pattern, (HOME / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert match, f"{file} has no line like {pattern}"
    return match[1]


if __name__ == "__main__":
    found = problems(sys.argv[1])
    print("\n".join(found) or "one version everywhere")
    sys.exit(2 if found else 0)
