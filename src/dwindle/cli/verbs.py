"""Every verb of the command by name, with its line of help and where it lives; imported only when it is typed.

A verb's module may import torch, and torch takes seconds: listing the verbs and completing their names must not.
"""

from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Verb(NamedTuple):
    """A verb that is not imported yet."""

    home: str
    """``module:name`` below ``dwindle.cli``; the name is that of a function or of a ``typer.Typer``."""
    help: str


HELP = ["-h", "--help"]
RULES, MODELS, RECIPES, OUTPUTS = "Rules", "Models", "Recipes and runs", "Outputs of any system"

VERBS: dict[str, dict[str, Verb]] = {
    OUTPUTS: {
        "score": Verb("score:score", "Score outputs or runs by any metric, with intervals and signatures."),
        "compare": Verb("compare:compare", "Test every difference between a base system and others."),
        "report": Verb("report:report", "Write one page with the results, examples and analyses of systems."),
        "omissions": Verb("omissions:omissions", "Say what outputs left out, with a known error rate."),
        "study": Verb("study:app", "Compare two systems with people."),
    },
    MODELS: {
        "studio": Verb("studio:studio", "Watch models write about a text, on a page of your own."),
        "coverage": Verb("coverage:coverage", "Show what a model used of one text, and what it left out."),
        "families": Verb("families:families", "List the families of models that take a rule."),
        "import": Verb("import_:import_", "Open a published checkpoint of the paper's baselines."),
        "inspect": Verb("inspect:inspect", "Say which rule a saved model carries."),
        "bench": Verb("bench:app", "Measure how long things take on this machine."),
    },
    RULES: {
        "rules": Verb("rules:rules", "List every concave function and rule."),
        "certify": Verb("certify:certify", "Prove that a rule has diminishing returns, or refute it."),
        "audit": Verb("audit:audit", "Recompute the paper's own figures."),
    },
    RECIPES: {
        "demo": Verb("demo:demo", "Train, compare and report on synthetic data, in minutes."),
        "recipes": Verb("recipes:app", "List recipes, all or by a word; show, copy or check one."),
        "run": Verb("run:run", "Run a recipe: train, generate, score."),
        "train": Verb("run:train", "Train the model of a run again or further."),
        "generate": Verb("run:generate", "Decode the test split of a run."),
        "arena": Verb("arena:arena", "Compare recipes that continue one checkpoint."),
        "data": Verb("data:app", "Look at corpora."),
    },
}


class Later(TyperCommand):
    """Stands for a verb in listings; parsing its arguments loads the verb itself."""

    def __init__(self, name: str, verb: Verb, panel: str) -> None:
        super().__init__(name, help=verb.help, rich_help_panel=panel)
        self.verb = verb

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        return load(self.name or "", self.verb).make_context(info_name, args, parent=parent, **extra)


class Verbs(TyperGroup):
    """The group of all verbs."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for verbs in VERBS.values() for name in verbs]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
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
    return command


def _hide_types(command: Any) -> None:
    """No types beside the flags of a command and of the commands inside it."""
    _without_types(command.get_params(typer.Context(command, help_option_names=HELP)))
    for inner in getattr(command, "commands", {}).values():
        _hide_types(inner)


def _without_types(parameters: list[Any]) -> list[Any]:
    """typer writes ``<bool>`` beside every flag, as if it took a value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters
