"""The command itself: its verbs, and its errors. One sentence, exit code 2, never a traceback."""

import re
import sys

import typer

from dwindle import __version__
from dwindle.cli.verbs import HELP, Verbs, nearest

app = typer.Typer(
    cls=Verbs,
    help="Find what outputs repeat or leave out, and put a rule against it into a model's "
    "attention.",
    epilog="Example, in a clone: dwindle report docs/demo/plain.jsonl --out report.html",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dwindle {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    try:
        code = app(arguments, standalone_mode=False, prog_name="dwindle")
    except ValueError as error:
        code = _complain(str(error))
    except FileNotFoundError as error:
        code = _complain(f"there is no {error.filename}: check its name")
    except OSError as error:
        code = _complain(
            f"{error.filename}: {error.strerror}"
            if error.filename and error.strerror
            else str(error)
        )
    except typer.Abort:
        code = 130
    except Exception as error:
        # Errors of usage: typer keeps their class private, so they are known by their method.
        if not hasattr(error, "format_message"):
            raise
        if not error.format_message():  # a group without a verb: its help has been printed
            sys.exit(2)
        context = getattr(error, "ctx", None)
        usage = f"{context.command_path} --help" if context else "dwindle --help"
        code = _complain(f"{error.format_message().rstrip('.')}: {_suggestion(error)}see '{usage}'")
    sys.exit(code if isinstance(code, int) else 0)


def _suggestion(error: Exception) -> str:
    """The verb that was probably meant, where a typing slip made it unknown."""
    typed = re.match(r"No such command '([^']*)'", error.format_message())  # type: ignore[attr-defined]
    meant = nearest(typed[1]) if typed else None
    return f"did you mean '{meant}'? Or " if meant else ""


def _complain(sentence: str) -> int:
    typer.echo(f"dwindle: {sentence}", err=True)
    return 2


if __name__ == "__main__":  # torchrun -m dwindle.cli.main run ...
    main()
