"""The verbs: listed without being imported, and each what its line says."""

import os
import subprocess
import sys

import pytest
import torch
import typer

from dwindle.cli.verbs import VERBS, load
from dwindle.core.constant import constant

ALL = {name: verb for verbs in VERBS.values() for name, verb in verbs.items()}


@pytest.mark.parametrize("name", ALL)
def test_verb_is_there_and_says_more_than_its_line(name, run):
    assert load(name, ALL[name]).name == name
    code, out, _ = run(name, "--help")
    assert code == 0
    assert f"dwindle {name}" in out
    assert "<bool>" not in out


def test_help_and_completion_import_no_verb():
    code = (
        "import sys\nfrom dwindle.cli.main import main\n"
        "try:\n    main({arguments})\nexcept SystemExit:\n    pass\n"
        "assert not {{'torch', 'numpy', 'dwindle.cli.score'}} & set(sys.modules)"
    )
    help_page = subprocess.run(
        [sys.executable, "-c", code.format(arguments="['--help']")], capture_output=True, text=True
    )
    assert help_page.returncode == 0, help_page.stderr
    assert all(name in help_page.stdout for name in ALL)
    typed = {"_DWINDLE_COMPLETE": "complete_bash", "COMP_WORDS": "dwindle cer", "COMP_CWORD": "1"}
    completed = subprocess.run(
        [sys.executable, "-c", code.format(arguments="[]")], capture_output=True, text=True, env={**os.environ, **typed}
    )
    assert completed.stdout.split() == ["certify"]
    assert completed.returncode == 0, completed.stderr


def test_group_without_a_verb_prints_its_help_only(run):
    code, out, err = run("bench")
    assert (code, err) == (2, "")
    assert "attention" in out


def test_options_of_a_verb_are_completed():
    typed = {"_DWINDLE_COMPLETE": "complete_bash", "COMP_WORDS": "dwindle certify --js", "COMP_CWORD": "2"}
    command = [sys.executable, "-m", "dwindle.cli.main"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **typed}, check=True)
    assert done.stdout.split() == ["--json"]


def test_constant_is_what_the_library_makes_of_it():
    ours, theirs = constant(lambda: 1), torch.compiler.assume_constant_result(lambda: 1)
    assert vars(ours) == vars(theirs)


def test_a_function_becomes_a_command():
    assert isinstance(load("rules", ALL["rules"]), typer.core.TyperCommand)
