"""``dwindle certify RULE``: exit 0 if the rule has diminishing returns, else 1 and an example."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

import dwindle


def certify(
    rule: Annotated[str, typer.Argument(help="A rule, such as 'dim:log' or 'paper:pg-dydim'.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Prove that RULE has diminishing returns, or show where it has not.

    Exit code 0: it has. 1: it has not, and the counter-example is printed. 2: no such rule.
    """
    certificate = dwindle.certify(rule)
    if as_json:
        claims = {
            f: asdict(getattr(certificate, f)) for f in ("concave", "set_function", "diminishing")
        }
        example = certificate.counterexample
        typer.echo(
            json.dumps(
                {
                    "rule": str(certificate.rule),
                    "holds": certificate.holds,
                    **claims,
                    "counterexample": asdict(example) if example else None,
                },
                indent=2,
            )
        )
    else:
        _print(certificate)
    raise typer.Exit(0 if certificate.holds else 1)


def _print(certificate: dwindle.Certificate) -> None:
    console = Console(highlight=False)
    headline, *_ = str(certificate).splitlines()
    console.print(f"[bold {'green' if certificate.holds else 'red'}]{escape(headline)}")
    for claim in certificate.claims:
        mark = (
            "[green]✓[/]"
            if claim.holds and claim.proved
            else "[yellow]?[/]"
            if claim.holds
            else "[red]✗[/]"
        )
        console.print(f"{mark} {escape(claim.statement)}")
        console.print(f"  [dim]{escape(claim.because)}")
