"""The verbs: listed without being imported, and each what its line says."""

import io
import itertools
import os
import shlex
import subprocess
import sys

import pytest
import torch
import typer
from rich.console import Console

from dwindle.cli import terminal
from dwindle.cli.verbs import VERBS, load
from dwindle.core.constant import constant
from tests.docs.pages import HOME

ALL = {name: verb for verbs in VERBS.values() for name, verb in verbs.items()}


@pytest.mark.parametrize("name", ALL)
def test_verb_is_there_and_says_more_than_its_line(name, run):
    assert load(name, ALL[name]).name == name
    code, out, _ = run(name, "--help")
    assert code == 0
    assert f"dwindle {name}" in out
    assert "<bool>" not in out


@pytest.mark.parametrize("name", ALL)
def test_the_example_of_a_verb_can_be_parsed(name, run):
    """Parsed, not run: some of them take minutes, and a network."""
    command, words = load(name, ALL[name]), shlex.split(ALL[name].example)
    context = command.make_context(name, list(words), resilient_parsing=False)
    inner = getattr(command, "commands", {}).get(words[0]) if words else None
    if inner:
        inner.make_context(words[0], words[1:], parent=context)
    *_, heading, shown = [line for line in run(name, "--help")[1].splitlines() if line.strip()]
    assert heading == " Example:"
    # on one line, which can be pasted
    assert shown.split() == ["dwindle", name, *ALL[name].example.split()]
    files = [word for word in words if word.startswith("docs/")]
    assert all((HOME / file).is_file() for file in files)


def test_paragraphs_of_a_help_are_not_broken_twice(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("omissions", "--help")[1].partition("Arguments")[0]
    lines = [line.rstrip() for line in shown.splitlines() if line.strip()]
    short = [
        line for line, after in itertools.pairwise(lines) if len(f"{line} {after.split()[0]}") < 70
    ]
    assert len(short) <= 4  # the last lines of its paragraphs


def test_a_typing_slip_gets_a_suggestion(run):
    code, _, complained = run("reprot", "a.jsonl")
    assert code == 2
    assert "did you mean 'report'?" in complained
    assert complained.count("\n") == 1
    assert "did you mean" not in run("zzzzzz")[2]


def test_progress_on_a_terminal_is_one_line_a_stage():
    """On 80 columns, however long the name of a stage is."""
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    shown = terminal.bar(console)
    for stage in (
        "writing outputs of shortened sources, 1 of 2",
        "scoring /a/very/long/path/to/some/folder/outputs.jsonl",
    ):
        task = shown.add_task(stage, total=12_000)
        shown.update(task, completed=3)
        shown.update(task, completed=11_000)
    lines = [
        line.rstrip()
        for line in console.render_lines(shown.get_renderable())
        for line in ["".join(s.text for s in line)]
    ]
    assert len(lines) == 2
    assert all(len(line) <= 80 and "11000/12000" in line for line in lines)
    assert lines[0].startswith("writing outputs of")
    assert "a second" in lines[0]


def test_progress_in_a_pipe_is_a_line_now_and_then():
    now, said = [0.0], []
    tell = terminal.ProgressLines(said.append, lambda: now[0])
    for second in range(0, 101):
        now[0] = float(second)
        tell("auditing", second, 200)
    assert said == [
        "auditing: 10 of 200, 1.0 a second, about 3 min left",
        "auditing: 40 of 200, 1.0 a second, about 3 min left",
        "auditing: 70 of 200, 1.0 a second, about 2 min left",
        "auditing: 100 of 200, 1.0 a second, about 2 min left",
    ]
    tell("another", 1, 2)
    now[0] += 20
    tell("another", 2, 2)
    assert said[-1] == "another: 2 of 2, 3.0 a minute"


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
        [sys.executable, "-c", code.format(arguments="[]")],
        capture_output=True,
        text=True,
        env={**os.environ, **typed},
    )
    assert completed.stdout.split() == ["certify"]
    assert completed.returncode == 0, completed.stderr


def test_group_without_a_verb_prints_its_help_only(run):
    code, out, err = run("bench")
    assert (code, err) == (2, "")
    assert "attention" in out


def test_options_of_a_verb_are_completed():
    typed = {
        "_DWINDLE_COMPLETE": "complete_bash",
        "COMP_WORDS": "dwindle certify --js",
        "COMP_CWORD": "2",
    }
    command = [sys.executable, "-m", "dwindle.cli.main"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **typed}, check=True
    )
    assert done.stdout.split() == ["--json"]


def test_constant_is_what_the_library_makes_of_it():
    ours, theirs = constant(lambda: 1), torch.compiler.assume_constant_result(lambda: 1)
    assert vars(ours) == vars(theirs)


def test_a_function_becomes_a_command():
    assert isinstance(load("rules", ALL["rules"]), typer.core.TyperCommand)
