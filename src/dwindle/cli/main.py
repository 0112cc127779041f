"""The command itself: its verbs, and how an error reads. One sentence, exit code 2, never a traceback."""

import sys

import typer

from dwindle import __version__
from dwindle.cli import (
    arena,
    audit,
    bench_attention,
    bench_model,
    certify,
    compare,
    coverage,
    data,
    demo,
    families,
    inspect,
    omissions,
    recipes,
    report,
    rules,
    run,
    score,
    study,
)

app = typer.Typer(
    help="Attention that remembers what it has already used.",
    epilog="Start with 'dwindle rules', or 'dwindle certify dydim:log,power(0.5)'.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("rules")(rules.rules)
app.command("certify")(certify.certify)
app.command("demo")(demo.demo)
app.add_typer(recipes.app, name="recipes")
app.command("run")(run.run)
app.command("train")(run.train)
app.command("generate")(run.generate)
app.command("arena")(arena.arena)
app.add_typer(data.app, name="data")
app.command("families")(families.families)
app.command("inspect")(inspect.inspect)
app.command("score")(score.score)
app.command("compare")(compare.compare)
app.command("audit")(audit.audit)
app.command("report")(report.report)
app.command("coverage")(coverage.coverage)
app.command("omissions")(omissions.omissions)
bench = typer.Typer(help="Measure how long things take on this machine.", no_args_is_help=True)
bench.command("attention")(bench_attention.attention)
bench.command("model")(bench_model.model)
app.add_typer(bench, name="bench")
app.add_typer(study.app, name="study")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dwindle {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    try:
        code = app(arguments, standalone_mode=False, prog_name="dwindle")
    except (ValueError, OSError) as error:
        code = _complain(str(error))
    except typer.Abort:
        code = 130
    except Exception as error:
        # Errors of usage: typer keeps their class private, so they are known by their method.
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        usage = f"{context.command_path} --help" if context else "dwindle --help"
        code = _complain(f"{error.format_message().rstrip('.')}: see '{usage}'")
    sys.exit(code if isinstance(code, int) else 0)


def _complain(sentence: str) -> int:
    typer.echo(f"dwindle: {sentence}", err=True)
    return 2


if __name__ == "__main__":  # torchrun -m dwindle.cli.main run ...
    main()
