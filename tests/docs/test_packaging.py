"""What is said about installing is true: every extra that is named exists, and stands where it is
of use."""

import re
import tomllib
from itertools import chain

from dwindle import __version__
from tests import release, wheels
from tests.docs.pages import HOME

PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGES = [
    HOME / "README.md",
    HOME / "CONTRIBUTING.md",
    *HOME.glob("docs/**/*.md"),
    *HOME.glob("benchmarks/*.md"),
]
CODE = list(HOME.glob("src/dwindle/**/*.py"))


def named(text: str, package: str) -> set[str]:
    """The extras in every ``pip install 'PACKAGE[A,B]'`` of a text."""
    found = re.findall(rf"pip install\s+['\"]?{re.escape(package)}\[([\w,]+)\]", text)
    return {extra for group in found for extra in group.split(",")}


def test_every_extra_that_is_named_exists():
    for file in chain(PAGES, CODE):
        text = file.read_text(encoding="utf-8")
        wrong = (named(text, "dwindle") | named(text, ".")) - set(PROJECT["optional-dependencies"])
        assert not wrong, f"{file} names {wrong}"


def test_readers_install_from_a_clone():
    """dwindle is on no package index: only where it is installed already does its name mean it."""
    for page in PAGES:
        if page.name != "INSTALL.md":
            assert not named(page.read_text(encoding="utf-8"), "dwindle"), page


def test_the_page_of_installation_lists_every_extra():
    rows = re.findall(
        r"^\| `(\w+)` \|", (HOME / "docs/INSTALL.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(rows) == sorted(PROJECT["optional-dependencies"])


def test_the_page_of_installation_names_the_bounds():
    text = (HOME / "docs/INSTALL.md").read_text(encoding="utf-8")
    torch = next(
        one.removeprefix("torch>=") for one in PROJECT["dependencies"] if one.startswith("torch")
    )
    assert f"torch {torch} or newer" in text
    assert f"Python {PROJECT['requires-python'].removeprefix('>=')} or newer" in text
    (transformers,) = PROJECT["optional-dependencies"]["transformers"]
    assert f"(`{transformers.removeprefix('transformers')}`)" in text


def test_nothing_is_capped():
    for requirement in chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        assert not re.search(r"<|~=|==", requirement.split(";")[0]), requirement


def test_every_requirement_has_a_lower_bound():
    extras = PROJECT["optional-dependencies"].values()
    for requirement in chain(PROJECT["dependencies"], *extras):
        assert requirement.startswith("dwindle[") or ">=" in requirement, requirement


def test_the_check_of_the_wheel_knows_every_extra():
    assert {*wheels.COMMANDS, *wheels.RESOLVED} == {"", *PROJECT["optional-dependencies"]}


def test_one_version_everywhere():
    assert release.problems() == []


def test_a_tag_must_be_the_package_s_version_with_a_dated_section():
    tag, section = release.problems("v0.0.9")
    assert tag == f"the tag is v0.0.9, but the package is {__version__}"
    assert section.startswith(
        f"the first section of CHANGELOG.md is '{__version__}, not released yet': name"
    )
