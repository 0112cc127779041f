"""``dwindle bench``: how long things take on this machine."""

import typer

from dwindle.cli import bench_attention, bench_model

app = typer.Typer(
    help="Measure how long things take on this machine.", no_args_is_help=True, add_completion=False
)
app.command("attention")(bench_attention.attention)
app.command("model")(bench_model.model)
