"""The house: a room imports only from rooms above it, and importing dwindle does nothing else."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Collection
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import dwindle

# From the top. A room may know those before it in this list, never those after.
ROOMS = [
    "system",
    "display",
    "settings",
    "runfiles",
    "bulk",
    "native",
    "core",
    "attaching",
    "models",
    "checkpoints",
    "data",
    "generation",
    "auditing",
    "metrics",
    "training",
    "runs",
    "analysis",
    "report",
    "web",
    "study",
    "studio",
    "bench",
    "cli",
]
APART = {("studio", "study")}
"""Rooms that could import each other by their order, and must not: both stand on web."""
HOME = Path(dwindle.__file__).parent


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imported(file: Path, tree: ast.Module) -> set[str]:
    """The rooms that a file imports from, also inside functions."""
    rooms = set()
    for node in ast.walk(tree):
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
        for room in imported(file, parsed(file))
        if ROOMS.index(room) > ROOMS.index(own) or (own, room) in APART
    ]
    assert not wrong


def modules() -> dict[str, ast.Module]:
    """Every module of dwindle by its dotted name."""
    files = {
        file.relative_to(HOME.parent).with_suffix(""): file for file in sorted(HOME.rglob("*.py"))
    }
    return {
        ".".join(name.parts).removesuffix(".__init__"): parsed(file) for name, file in files.items()
    }


def loaded(tree: ast.Module, known: Collection[str]) -> set[str]:
    """The modules of ``known`` that a module imports, inside functions and for type checkers
    included."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names += [name if name in known else str(node.module) for name in inside]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return set(names) & set(known)


def test_no_import_cycle_even_for_type_checkers():
    trees = modules()
    # The package's own __init__ names everything for type checkers, and nothing imports from it but
    # its version.
    graph = {
        name: loaded(tree, trees) - {"dwindle"} for name, tree in trees.items() if name != "dwindle"
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


def test_no_public_class_name_twice():
    found = Counter(
        node.name
        for tree in modules().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in found.items() if count > 1] == []


SHORT = 40
LESSONS = {
    "dwindle.data.ptb": "the tokens of a corpus by rules: its name is what it does",
    "dwindle.report.coverage_page": "a page of its own, beside that of a report",
}
"""Modules of fewer than ``SHORT`` lines and one importer that keep their own file, and why."""


def test_short_modules_with_one_importer_join_it():
    trees = modules()
    users = Counter(
        name for own, tree in trees.items() for name in loaded(tree, trees) if own != "dwindle"
    )
    files = {name: HOME.joinpath(*name.split(".")[1:]).with_suffix(".py") for name in trees}
    found = {
        name
        for name, file in files.items()
        if file.is_file()
        and users[name] == 1
        and len(file.read_text(encoding="utf-8").splitlines()) < SHORT
    }
    assert found == set(LESSONS)


ASKING = ("How ", "What ", "When ", "Where ", "Whether ", "Which ", "Who ", "Why ")
"""Openings that docs/STYLE.md advises against."""


def test_docstrings_open_with_a_noun_or_a_verb():
    found = [
        f"{name}, line {node.lineno}: {node.value.value.strip()[:60]}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and node.value.value.lstrip().startswith(ASKING)
    ]
    assert found == []


def test_no_public_name_is_also_a_package():
    assert not {*dwindle.__all__} & {*ROOMS}


def test_every_folder_is_a_room():
    folders = {p.name for p in HOME.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= set(ROOMS)


def test_the_walker_sees_every_kind_of_import():
    file = Path("x.py")
    both = ast.parse("import dwindle.cli.main\ndef f():\n    from dwindle.report import x\n")
    assert imported(file, both) == {"cli", "report"}
    assert imported(file, ast.parse("from dwindle import study\n")) == {"study"}


def _quiet(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


FENCES = {
    "attaching/library.py",  # transformers: its registry, caches and configs
    "attaching/threads.py",  # the stacks of other threads
    "core/additive/source.py",  # the backward pass that autograd is in
    "core/backends/polynomial.py",  # numbers while somebody looks on with fake tensors
    "core/transforms.py",  # whether torch.func looks on
    "generation/search.py",  # the steps of the library's beam search
    "auditing/choose.py",  # where a model came from
    "models/recurrent.py",  # the backward pass that autograd is in
    "models/vocabulary_product.py",  # a product of torch's compiler
    "training/train.py",  # the trainer's checkpoints
    "training/trainer.py",  # the same
}
"""The files that may use private names of other libraries. Whoever moves to another version looks
here."""


_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def private(name: str) -> bool:
    # tuples have that for all to use
    return name.startswith("_") and not name.startswith("__") and name != "_replace"


def written(tree: ast.AST) -> set[str]:
    """The names that a file defines or sets."""
    made = {node.name for node in ast.walk(tree) if isinstance(node, _DEFINITIONS)}
    stored = [node for node in ast.walk(tree) if isinstance(getattr(node, "ctx", None), ast.Store)]
    return made | {getattr(node, "id", getattr(node, "attr", "")) for node in stored}


def strange(tree: ast.AST, own: set[str]) -> set[str]:
    """The private names in a file that are not ``own``: another library's."""
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("dwindle"):
            found |= {*(node.module or "").split("."), *(alias.name for alias in node.names)}
    return {name for name in found if private(name) and name not in own}


def test_private_names_of_other_libraries_stay_behind_their_fences():
    trees = {file.relative_to(HOME).as_posix(): parsed(file) for file in HOME.rglob("*.py")}
    own = set().union(*map(written, trees.values()))
    using = {name: found for name, tree in trees.items() if (found := strange(tree, own))}
    assert {name: found for name, found in using.items() if name not in FENCES} == {}


def test_the_fence_sees_attributes_and_imports():
    tree = ast.parse(
        "from torch._C import x\nfrom os import _exit\nmodel._beam_search()\nself._mine()"
    )
    assert strange(tree, {"_mine"}) == {"_C", "_exit", "_beam_search"}
    assert written(ast.parse("async def _mine(): ...")) == {"_mine"}


def test_import_is_light_and_quiet():
    _quiet(
        "import sys, dwindle; assert not {'torch', 'transformers', 'typer', 'rich'} & "
        "set(sys.modules)"
    )
    # The compiler alone takes as long as all of torch, and the library of models twice that.
    _quiet(
        "import sys, dwindle; dwindle.attach; assert not {'torch._dynamo', 'transformers'} & "
        "set(sys.modules)"
    )


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
