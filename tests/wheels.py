"""``make wheel-check``: the wheel as a stranger installs it. Builds it, installs it into an empty environment, then
each extra into one of its own on top of that, and runs a command of each.

An environment of an extra sees the core's packages through a ``.pth`` file, so torch is installed once. ``python -m
tests.wheels EXTRA...`` checks some.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

HOME = Path(__file__).parents[1]
TINY = [
    *("data.size={train: 8, dev: 2, test: 2}", "model.size=tiny", "model.vocabulary=300", "model.source_length=24"),
    *("training.steps=2", "training.batch_size=2", "decoding.min_length=1", "decoding.max_length=5"),
]
COMMANDS = {
    "": ["dwindle", "certify", "dim:log"],
    "data": ["dwindle", "data", "stats", "newsroom"],
    "docs": ["sphinx-build", "--version"],
    "figures": ["dwindle", "demo", "--illustration", "--out", "picture"],
    "metrics": ["dwindle", "score", "outputs.jsonl"],
    "mover": ["python", "-c", "import dwindle.metrics.moverscore, ot, transformers"],
    "report": ["dwindle", "report", "outputs.jsonl", "--out", "report.html"],
    "runs": ["dwindle", "run", "newsroom/base", *TINY],
    "studio": ["python", "-c", "import dwindle.studio.pages, dwindle.study.server"],
    "study": ["dwindle", "study", "new", "outputs.jsonl", "other.jsonl", "--items", "2", "--out", "study"],
    "training": ["python", "-c", "import dwindle.training.train"],
    "transformers": ["dwindle", "families"],
}
"""By the extra they need, what is run."""
RESOLVED = ("dev", "gpu")
"""Extras that are only resolved: the first is what ``make test`` installs, the second wants a GPU."""


def main(chosen: list[str]) -> int:
    """Check these extras."""
    with tempfile.TemporaryDirectory() as place:
        here = Path(place)
        _write_outputs(here)
        wheel = _built(here)
        core = _environment(here / "environments" / "core")
        _pip(core, "install", str(wheel))
        _run(core, COMMANDS[""], here)
        _refused(core, here)
        for extra in chosen:
            _check(extra, core, here)
    print("the wheel works")
    return 0


def extras() -> list[str]:
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return sorted(project["optional-dependencies"])


def _built(here: Path) -> Path:
    source = here / "source"
    names = ("src", "pyproject.toml", "README.md", "LICENSE")
    source.mkdir()
    for name in names:
        (shutil.copytree if (HOME / name).is_dir() else shutil.copy)(HOME / name, source / name)
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", here, source], check=True)
    return next(here.glob("dwindle-*.whl"))


def _environment(folder: Path, below: Path | None = None) -> Path:
    """A new environment; with ``below``, one that sees that one's packages too."""
    venv.create(folder, with_pip=True)
    if below:
        _packages(folder).joinpath("below.pth").write_text(f"{_packages(below)}\n")
    return folder


def _packages(environment: Path) -> Path:
    return next(environment.glob("lib/python3*/site-packages"))


def _check(extra: str, core: Path, here: Path) -> None:
    own = _environment(core.with_name(extra), core)
    # As the error messages say it: dwindle is there already, and this adds to it.
    _pip(own, "install", *(["--dry-run"] if extra in RESOLVED else []), f"dwindle[{extra}]")
    if extra not in RESOLVED:
        _run(own, COMMANDS[extra], here)
    print(f"dwindle[{extra}]: {'can be installed' if extra in RESOLVED else ' '.join(COMMANDS[extra][:4])}", flush=True)
    shutil.rmtree(own)


def _refused(core: Path, here: Path) -> None:
    """Without an extra, one sentence names it."""
    done = _start(core, COMMANDS["metrics"], here)
    assert done.returncode == 2, done.stderr
    assert "pip install 'dwindle[metrics]'" in done.stderr, done.stderr


def _pip(environment: Path, *arguments: str) -> None:
    constraints = ["-c", str(HOME / "constraints.txt")]
    command = [environment / "bin/python", "-m", "pip", "-q", "--disable-pip-version-check", *arguments, *constraints]
    subprocess.run(command, check=True)


def _run(environment: Path, command: list[str], here: Path) -> None:
    done = _start(environment, command, here)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _start(environment: Path, command: list[str], here: Path) -> subprocess.CompletedProcess[str]:
    # Not the script: the core's is below, and a script belongs to the environment that installed it.
    program = ["python", "-m", "dwindle.cli.main"] if command[0] == "dwindle" else command[:1]
    program[0] = str(environment / "bin" / program[0])
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(here), "OMP_NUM_THREADS": "1"}
    return subprocess.run([*program, *command[1:]], cwd=here, env=clean, capture_output=True, text=True, check=False)


def _write_outputs(here: Path) -> None:
    for name, said in (("outputs", "the mayor closed the bridge ."), ("other", "the bridge was closed .")):
        lines = [
            {"id": str(k), "source": "the mayor closed the bridge", "reference": "bridge closed", "hypothesis": said}
            for k in range(4)
        ]
        (here / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or extras()))
