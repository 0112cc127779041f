"""The house: a room imports only from rooms above it, and importing dwindle does nothing else."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dwindle

# From the top. A room may know those before it in this list, never those after.
ROOMS = [
    *("folder", "core", "attaching", "models", "checkpoints", "data", "generation", "listening"),
    *("metrics", "training", "runs", "analysis", "report", "study", "bench", "cli"),
]
HOME = Path(dwindle.__file__).parent


def imported(file: Path) -> set[str]:
    """The rooms that a file imports from, also inside functions."""
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {n.split(".")[1] for n in names if n.startswith("dwindle.")} & set(ROOMS)
    return rooms


def test_imports_go_one_way():
    wrong = [
        f"{file.relative_to(HOME)} imports from {room}/"
        for own in ROOMS
        for file in sorted((HOME / own).rglob("*.py"))
        for room in imported(file)
        if ROOMS.index(room) > ROOMS.index(own)
    ]
    assert not wrong


def test_every_folder_is_a_room():
    folders = {p.name for p in HOME.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= set(ROOMS)


def test_the_walker_sees_every_kind_of_import(tmp_path):
    file = tmp_path / "x.py"
    file.write_text("import dwindle.cli.main\ndef f():\n    from dwindle.report import x\n")
    assert imported(file) == {"cli", "report"}
    file.write_text("from dwindle import study\n")
    assert imported(file) == {"study"}


def _quiet(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_import_is_light_and_quiet():
    _quiet("import sys, dwindle; assert not {'torch', 'transformers', 'typer', 'rich'} & set(sys.modules)")
    # The compiler alone takes as long as all of torch, and the library of models twice that.
    _quiet("import sys, dwindle; dwindle.attach; assert not {'torch._dynamo', 'transformers'} & set(sys.modules)")


def test_every_public_name_is_there_and_known_to_type_checkers():
    assert sorted(dwindle._HOME) == sorted(dwindle.__all__)
    assert all(getattr(dwindle, name) for name in dwindle.__all__)
    tree = ast.parse((HOME / "__init__.py").read_text(encoding="utf-8"))
    checked = next(node for node in tree.body if isinstance(node, ast.If)).body
    seen = {alias.name: node.module for node in checked for alias in node.names}
    assert seen == dwindle._HOME
    assert set(dwindle.__all__) <= set(dir(dwindle))
    with pytest.raises(AttributeError, match="no attribute 'atach'"):
        dwindle.atach  # noqa: B018
