"""``make wheel-check``: the wheels as a stranger installs them. Builds them, serves them as a
package index on the loopback, installs ``dwindle`` from there into an empty environment, then each
extra into one of its own on top of that, and runs a command of each.

On Linux x86-64 there are two wheels, and pip takes the one that carries the compiled kernel: its
first call must use it where no compiler can be found, and compile nothing. The pure wheel must say
there in one line that it has no kernel, and give the same numbers.

An environment of an extra sees the core's packages through a ``.pth`` file, so torch is installed
once. ``python -m tests.wheels EXTRA...`` checks some.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOME = Path(__file__).parents[1]
TINY = [
    *(
        "data.size={train: 8, dev: 2, test: 2}",
        "model.size=tiny",
        "model.vocabulary=300",
        "model.source_length=24",
    ),
    *(
        "training.steps=2",
        "training.batch_size=2",
        "decoding.min_length=1",
        "decoding.max_length=5",
    ),
]
COMMANDS = {
    "": ["dwindle", "certify", "dim:log"],
    "data": ["dwindle", "data", "stats", "newsroom"],
    "docs": ["sphinx-build", "--version"],
    "figures": ["dwindle", "demo", "--illustration", "--out", "picture"],
    "metrics": ["dwindle", "score", "outputs.jsonl"],
    "mover": ["python", "-c", "import dwindle.metrics.moverscore, ot, transformers"],
    "omissions": ["python", "-c", "import dwindle.auditing.bulk, sentencepiece, jinja2"],
    "ray": [
        "python",
        "-c",
        "import dwindle.bulk.cluster; dwindle.bulk.cluster.engine('local')",
    ],
    "report": ["dwindle", "report", "outputs.jsonl", "--out", "report.html"],
    "runs": ["dwindle", "run", "newsroom/base", *TINY],
    "studio": ["python", "-c", "import dwindle.studio.pages, dwindle.web.server"],
    "study": [
        "dwindle",
        "study",
        "new",
        "outputs.jsonl",
        "other.jsonl",
        "--items",
        "2",
        "--out",
        "study",
    ],
    "training": ["python", "-c", "import dwindle.training.train"],
    "transformers": ["dwindle", "families"],
}
"""By the extra they need, what is run."""
RESOLVED = ("dev", "gpu")
"""Extras that are only resolved: the first is what ``make test`` installs, the second wants a
GPU."""


CARRIES = platform.system() == "Linux" and platform.machine() == "x86_64"
"""Whether a wheel with the kernel is built here."""
FIRST_CALL = """
import torch, dwindle
torch.manual_seed(0)
q, k, v = torch.randn(3, 1, 2, 5, 8)
context, _ = dwindle.attention(q, k, v, rule="dydim:log,power(0.5)", backend={backend!r})
exact, _ = dwindle.attention(q, k, v, rule="dydim:log,power(0.5)", backend="eager")
torch.testing.assert_close(context, exact)
print(dwindle.native.build.library())
"""


def main(chosen: list[str]) -> int:
    """Check these extras."""
    with tempfile.TemporaryDirectory() as place:
        here = Path(place)
        _write_outputs(here)
        core = _environment(here / "environments" / "core")
        wheels = _built(here)
        with served(wheels, here / "index") as index:
            _pip(core, index, "install", "dwindle")
            _run(core, COMMANDS[""], here)
            if CARRIES:
                _kernel_without_compiler(core, here)
                _pure_without_compiler(core, wheels, here)
            _refused(core, here)
            for extra in chosen:
                _check(extra, core, here, index)
    print("the wheels work")
    return 0


def extras() -> list[str]:
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return sorted(project["optional-dependencies"])


def _built(here: Path) -> list[Path]:
    """The pure wheel, and where there is one, that with the kernel."""
    source = here / "source"
    names = ("src", "hatch_build.py", "pyproject.toml", "README.md", "LICENSE")
    source.mkdir()
    for name in names:
        (shutil.copytree if (HOME / name).is_dir() else shutil.copy)(HOME / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", here, source]
    for carries in ("false", "true") if CARRIES else ("false",):
        environment = os.environ | {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": carries}
        subprocess.run(command, check=True, env=environment)
    return sorted(here.glob("dwindle-*.whl"))


def _kernel_without_compiler(core: Path, here: Path) -> None:
    """The first call uses the kernel of the wheel, says nothing and builds nothing."""
    done = _first_call(core, here, backend="cpu")
    assert done.returncode == 0, done.stderr
    assert not _said(done), done.stderr
    assert Path(done.stdout.strip()).is_relative_to(_packages(core)), done.stdout
    assert not list(here.glob(".cache/dwindle/kernel-*")), "something was built"
    print(f"the kernel came with the wheel: {Path(done.stdout.strip()).name}", flush=True)


def _pure_without_compiler(core: Path, wheels: list[Path], here: Path) -> None:
    """The pure wheel says in one line that it has no kernel, and goes on."""
    own = _environment(core.with_name("pure"), core)
    (pure,) = (wheel for wheel in wheels if wheel.name.endswith("-none-any.whl"))
    command = [own / "bin/python", "-m", "pip", "-q", "install", "--no-deps", "--ignore-installed"]
    subprocess.run([*command, pure], check=True)
    done = _first_call(own, here, backend=None)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "None", done.stdout
    (line,) = _said(done)
    assert "there is no C++ compiler" in line, line
    print("the pure wheel goes on without a compiler", flush=True)
    shutil.rmtree(own)


def _first_call(
    environment: Path, here: Path, backend: str | None
) -> subprocess.CompletedProcess[str]:
    """A call where no program can be found, and nobody has called before."""
    nothing = here / "nothing"
    nothing.mkdir(exist_ok=True)
    found = [name for name in ("g++", "c++", "cc", "clang++") if shutil.which(name, path=nothing)]
    assert not found, found
    command = ["python", "-c", FIRST_CALL.format(backend=backend)]
    return _start(environment, command, here, path=str(nothing))


def _said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Our own lines on stderr: torch may have some of its own."""
    return [line for line in done.stderr.splitlines() if line.startswith("dwindle:")]


@contextmanager
def served(wheels: list[Path], folder: Path) -> Iterator[str]:
    """The address of a package index that has these wheels, for the time of the block."""
    (folder / "dwindle").mkdir(parents=True)
    for wheel in wheels:
        shutil.copy(wheel, folder / "dwindle")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    """The listing of a folder is all that pip wants of an index."""

    def log_message(self, *_: object) -> None:
        pass


def _environment(folder: Path, below: Path | None = None) -> Path:
    """A new environment; with ``below``, one that sees that one's packages too."""
    venv.create(folder, with_pip=True)
    if below:
        _packages(folder).joinpath("below.pth").write_text(f"{_packages(below)}\n")
    return folder


def _packages(environment: Path) -> Path:
    return next(environment.glob("lib/python3*/site-packages"))


def _check(extra: str, core: Path, here: Path, index: str) -> None:
    own = _environment(core.with_name(extra), core)
    # As the error messages say it: dwindle is there already, and this adds to it.
    _pip(own, index, "install", *(["--dry-run"] if extra in RESOLVED else []), f"dwindle[{extra}]")
    if extra not in RESOLVED:
        _run(own, COMMANDS[extra], here)
    print(
        f"dwindle[{extra}]: "
        f"{'can be installed' if extra in RESOLVED else ' '.join(COMMANDS[extra][:4])}",
        flush=True,
    )
    shutil.rmtree(own)


def _refused(core: Path, here: Path) -> None:
    """Without an extra, one sentence names it."""
    done = _start(core, COMMANDS["metrics"], here)
    assert done.returncode == 2, done.stderr
    assert "pip install 'dwindle[metrics]'" in done.stderr, done.stderr


def _pip(environment: Path, index: str, *arguments: str) -> None:
    constraints = ["-c", str(HOME / "constraints.txt"), "--extra-index-url", index]
    command = [
        environment / "bin/python",
        "-m",
        "pip",
        "-q",
        "--disable-pip-version-check",
        *arguments,
        *constraints,
    ]
    subprocess.run(command, check=True)


def _run(environment: Path, command: list[str], here: Path) -> None:
    done = _start(environment, command, here)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _start(
    environment: Path, command: list[str], here: Path, path: str = "/usr/bin:/bin"
) -> subprocess.CompletedProcess[str]:
    # Not the script: the core's is below, and a script belongs to the environment that installed
    # it.
    program = ["python", "-m", "dwindle.cli.main"] if command[0] == "dwindle" else command[:1]
    program[0] = str(environment / "bin" / program[0])
    clean = {"PATH": path, "HOME": str(here), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*program, *command[1:]], cwd=here, env=clean, capture_output=True, text=True, check=False
    )


def _write_outputs(here: Path) -> None:
    for name, said in (
        ("outputs", "the mayor closed the bridge ."),
        ("other", "the bridge was closed ."),
    ):
        lines = [
            {
                "id": str(k),
                "source": "the mayor closed the bridge",
                "reference": "bridge closed",
                "hypothesis": said,
            }
            for k in range(4)
        ]
        (here / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or extras()))
