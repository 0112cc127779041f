"""``make versions``: the tests that touch `transformers`, run with the releases that dwindle
promises to work with.

Each pair of releases gets an environment below ``build/versions`` that sees the packages of
``.venv`` through a ``.pth`` file, and has its own of what differs. The counts are written into the
table of ``docs/INSTALL.md``, those of failures too; why tests were skipped is printed, with how
many. ``python -m tests.versions 5.0.0 4.57.6`` runs some pairs and leaves the other rows alone;
``--here`` runs the tests with what is installed and writes nothing.
"""

import os
import re
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.test_constraints import pinned

HOME = Path(__file__).parents[1]
PAGE = HOME / "docs/INSTALL.md"
SUBJECTS = {
    "attaching": "attaching carrier decoding families library newer prompt_decoding record saving "
    "training wrapped",
    "auditing": "families heads",
    "checkpoints": "fairseq_bart presumm",
    "generation": "fence own_models processors search",
    "metrics": "moverscore",
    "models": "build pointer_generator_generate presets subword",
    "training": "optimise selection train",
}
"""By room, the test files that reach furthest into `transformers`."""
ATTACHING = ("attaching", "auditing", "metrics")
"""The rooms that work with releases before 5.0 too."""
COPIES = (
    "XLM CamemBERT Data2Vec PreLayerNorm MOD ELECTRA ERNIE RoCBert mT5 UMT5 MVP NLLB PLBart "
    "Seamless RemBERT RoFormer Pegasus"
)
WITHOUT = f"not compiled and not (test_families and ({' or '.join(COPIES.split())}))"
"""Not run: compiling, which depends on torch more than on `transformers`, and families much like
another."""
ALONG = ("accelerate", "datasets", "huggingface_hub", "peft", "tokenizers")
"""What changes with `transformers`: pip takes the newest versions that agree with it."""
HEAD = (
    "| transformers | torch | tests of | passed | failed | skipped |\n|---|---|---|---|---|---|\n"
)
ROW = re.compile(
    r"^\| ([\d.]+) \| ([\d.]+) \| [a-z ,]+ \| (\d+) \| (\d+) \| (\d+) \|\n", re.MULTILINE
)


@dataclass(frozen=True, order=True)
class Pair:
    """Two releases that are tried together."""

    transformers: str
    torch: str

    @property
    def folder(self) -> Path:
        return HOME / f"build/versions/transformers-{self.transformers}-torch-{self.torch}"

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"

    @property
    def report(self) -> Path:
        return self.folder / "report.xml"

    @property
    def rooms(self) -> tuple[str, ...]:
        """The rooms that are promised to work with it."""
        return ATTACHING if self.transformers.startswith("4.") else tuple(SUBJECTS)


NEWEST = pinned("constraints.txt")["transformers"]
TORCH = pinned("constraints.txt")["torch"].split("+")[0]
PAIRS = [
    *(Pair(release, TORCH) for release in ("4.57.1", "5.0.0", "5.10.4", "5.22.2", NEWEST)),
    Pair(NEWEST, "2.6.0"),
]
"""The oldest release, the first of the next line, two in between, the newest; and the newest with
the oldest torch."""


def main(chosen: list[str]) -> int:
    """Try the pairs whose `transformers` is among ``chosen``, or all."""
    if chosen == ["--here"]:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-k", WITHOUT, *tests(SUBJECTS)], cwd=HOME, check=False
        ).returncode
    counts = {Pair(*row[:2]): row[2:] for row in ROW.findall(PAGE.read_text("utf-8"))}
    for pair in [pair for pair in PAIRS if not chosen or pair.transformers in chosen]:
        made(pair)
        counts[pair] = counted(pair)
        write({pair: counts[pair] for pair in PAIRS if pair in counts})
        print(f"{pair}: {' '.join(map(str, counts[pair]))}", flush=True)
        for (room, why), number in reasons(pair).most_common():
            print(f"  {number} skipped in {room}: {why}", flush=True)
    return int(any(int(failed) for _, failed, _ in counts.values()))


def tests(rooms: Iterable[str]) -> list[str]:
    return [f"tests/{room}/test_{name}.py" for room in rooms for name in SUBJECTS[room].split()]


def made(pair: Pair) -> None:
    """The environment; one that is there stays."""
    if pair.python.exists():
        return
    venv.create(pair.folder, with_pip=True)
    below = next((HOME / ".venv").glob("lib/python3*/site-packages"))
    next(pair.folder.glob("lib/python3*/site-packages")).joinpath("below.pth").write_text(
        f"{below}\n"
    )
    wanted = [f"transformers=={pair.transformers}", f"torch=={pair.torch}", *ALONG]
    subprocess.run(
        [pair.python, "-m", "pip", "-q", "--disable-pip-version-check", "install", *wanted],
        check=True,
    )


def reasons(pair: Pair) -> Counter[tuple[str, str]]:
    """Numbers of skipped tests by their file and the reason that they gave."""
    cases = ElementTree.parse(pair.report).getroot().iter("testcase")
    return Counter(
        (case.attrib["classname"].removeprefix("tests."), skipped.attrib["message"])
        for case in cases
        for skipped in case.findall("skipped")
    )


def counted(pair: Pair) -> tuple[int, int, int]:
    """How many tests passed, failed and were skipped."""
    report = pair.report
    options = ["-p", "no:cacheprovider", "--tb=short", f"--junitxml={report}", "-k", WITHOUT]
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HOME / "src")}
    report.unlink(missing_ok=True)
    subprocess.run(
        [pair.python, "-m", "pytest", *options, *tests(pair.rooms)],
        cwd=HOME,
        env=surroundings,
        check=False,
    )
    (suite,) = ElementTree.parse(report).getroot()
    number = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    failed = number["failures"] + number["errors"]
    return number["tests"] - failed - number["skipped"], failed, number["skipped"]


def write(counts: dict[Pair, tuple[object, ...]]) -> None:
    """Put these rows into the page's table."""
    rows = [
        (
            pair.transformers,
            pair.torch,
            "all" if len(pair.rooms) == len(SUBJECTS) else ", ".join(pair.rooms),
            *count,
        )
        for pair, count in counts.items()
    ]
    before, _, after = PAGE.read_text("utf-8").partition(HEAD)
    lines = "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows)
    PAGE.write_text(before + HEAD + lines + ROW.sub("", after), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
