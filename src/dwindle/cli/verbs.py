"""Every verb of the command by name, with its line of help and where it lives; imported only when
it is typed.

A verb's module may import torch, and torch takes seconds: listing the verbs and completing their
names must not.
"""

from difflib import get_close_matches
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Verb(NamedTuple):
    """A verb that is not imported yet."""

    home: str
    """``module:name`` below ``dwindle.cli``, of a function or of a ``typer.Typer``."""
    help: str
    example: str
    """Arguments that can be typed after the verb, in a clone if they name a file of it."""


HELP = ["-h", "--help"]
RULES, MODELS, RECIPES, OUTPUTS = "Rules", "Models", "Recipes and runs", "Outputs of any system"

VERBS: dict[str, dict[str, Verb]] = {
    OUTPUTS: {
        "omissions": Verb(
            "omissions:omissions",
            "Say what outputs left out, with a known error rate.",
            "docs/demo/letters.jsonl --model Helsinki-NLP/opus-mt-en-fr --intact "
            "docs/demo/sentences.jsonl",
        ),
        "report": Verb(
            "report:report",
            "Write one page with the results, examples and analyses of systems.",
            "docs/demo/plain.jsonl --out report.html",
        ),
        "score": Verb(
            "score:score",
            "Score outputs or runs by any metric, with intervals and signatures.",
            "docs/demo/plain.jsonl",
        ),
        "compare": Verb(
            "compare:compare",
            "Test every difference between a base system and others.",
            "docs/demo/plain.jsonl docs/demo/dim-copy.jsonl",
        ),
        "study": Verb(
            "study:app",
            "Compare two systems with people.",
            "new docs/demo/plain.jsonl docs/demo/dim-copy.jsonl --out study",
        ),
    },
    MODELS: {
        "studio": Verb(
            "studio:studio",
            "Watch models write about a text, on a page of your own.",
            "Helsinki-NLP/opus-mt-en-fr",
        ),
        "coverage": Verb(
            "coverage:coverage",
            "Show what a model used of one text, and what it left out.",
            "Helsinki-NLP/opus-mt-en-fr --text docs/demo/tenancy.txt",
        ),
        "families": Verb("families:families", "List the families of models that take a rule.", ""),
        "import": Verb(
            "import_:import_",
            "Open a published checkpoint of the paper's baselines.",
            "CHECKPOINT --out model",
        ),
        "inspect": Verb("inspect:inspect", "Say which rule a saved model carries.", "MODEL"),
        "bench": Verb("bench:app", "Measure how long things take on this machine.", "attention"),
    },
    RULES: {
        "rules": Verb("rules:rules", "List every concave function and rule.", ""),
        "certify": Verb(
            "certify:certify",
            "Prove that a rule has diminishing returns, or refute it.",
            "paper:pg-dydim",
        ),
        "paper": Verb("paper:paper", "Recompute the paper's printed figures from each other.", ""),
    },
    RECIPES: {
        "demo": Verb(
            "demo:demo", "Train, compare and report on synthetic data, in minutes.", "--out demo"
        ),
        "recipes": Verb(
            "recipes:app",
            "List tasks or the recipes of one; show, copy or check a recipe.",
            "cnndm",
        ),
        "run": Verb("run:run", "Run a recipe: train, generate, score.", "newsroom/dim --plan"),
        "train": Verb(
            "run:train", "Train the model of a run again or further.", "runs/newsroom/dim"
        ),
        "generate": Verb(
            "run:generate",
            "Decode the test split of a run, or files of sources.",
            "runs/newsroom/dim",
        ),
        "arena": Verb(
            "arena:arena",
            "Compare recipes that continue one checkpoint.",
            "newsroom/plain newsroom/dim --seeds 1 --out runs/newsroom",
        ),
        "data": Verb("data:app", "Look at corpora.", "sample"),
    },
}


OPTIONAL = {"--ray": "local"}
"""Options that may be typed without a value, and the value they then have: typer has none."""
RENAMED = {"audit": "paper"}
"""Old names of verbs. They work, with a warning, until the next version."""


def nearest(name: str) -> str | None:
    """The verb that somebody who typed ``name`` may have meant."""
    known = [*RENAMED, *(verb for verbs in VERBS.values() for verb in verbs)]
    return next(iter(get_close_matches(name, known, 1)), None)


class Later(TyperCommand):
    """Stands for a verb in listings; parsing its arguments loads the verb itself."""

    def __init__(self, name: str, verb: Verb, panel: str) -> None:
        super().__init__(name, help=verb.help, rich_help_panel=panel)
        self.verb = verb

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        return load(self.name or "", self.verb).make_context(
            info_name, _filled(args), parent=parent, **extra
        )


class Verbs(TyperGroup):
    """The group of all verbs."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for verbs in VERBS.values() for name in verbs]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in RENAMED:
            new = RENAMED[cmd_name]
            typer.echo(
                f"dwindle: '{cmd_name}' is now 'dwindle {new}'; the next version drops the old "
                "name",
                err=True,
            )
            cmd_name = new
        for panel, verbs in VERBS.items():
            if cmd_name in verbs:
                return Later(cmd_name, verbs[cmd_name], panel)
        return None


def load(name: str, verb: Verb) -> Any:
    """The real command of a verb."""
    module, attribute = verb.home.split(":")
    found = getattr(import_module(f"dwindle.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False)
        found.command(name)(function)
    command = typer.main.get_command(found)
    command.name = name
    _hide_types(command)
    _reflow(command)
    _end_help(command, f"dwindle {name} {verb.example}".rstrip())
    return command


def _filled(arguments: list[str]) -> list[str]:
    """Arguments with the value of every option that was typed without one and may be."""
    return [
        f"{one}={OPTIONAL[one]}" if one in OPTIONAL and after.startswith("-") else one
        for one, after in pairwise([*arguments, "-"])
    ]


def _end_help(command: Any, example: str) -> None:
    """End the help of a command with an example on one line, however long: typer would break it
    into lines, and what is then pasted is not one command."""
    format_help = command.format_help

    def formatted(context: Any, formatter: Any) -> None:
        format_help(context, formatter)
        typer.echo(f" Example:\n {example}")

    command.format_help = formatted


def _reflow(command: Any) -> None:
    """The help of a command and of those inside it with one line a paragraph: typer keeps the line
    breaks of a docstring, and a terminal adds its own."""
    if command.help:
        command.help = "\n\n".join(" ".join(part.split()) for part in command.help.split("\n\n"))
    for inner in getattr(command, "commands", {}).values():
        _reflow(inner)


def _hide_types(command: Any) -> None:
    """Hide the types beside the flags of a command and of the commands inside it."""
    _without_types(command.get_params(typer.Context(command, help_option_names=HELP)))
    for inner in getattr(command, "commands", {}).values():
        _hide_types(inner)


def _without_types(parameters: list[Any]) -> list[Any]:
    """typer writes ``<bool>`` beside every flag, as if it took a value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters
