"""The scripts of ``benchmarks/``: what they take from dwindle is there. They are run by hand, so
nothing else would notice that a name has moved."""

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_what_a_script_imports_is_there(script):
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("dwindle"):
            module = importlib.import_module(str(node.module))
            below = [one.name for one in pkgutil.iter_modules(getattr(module, "__path__", []))]
            names = [alias.name for alias in node.names]
            assert [name for name in names if not hasattr(module, name) and name not in below] == []
