"""Run the notebooks and keep what their cells show, for the site.

    python docs/notebooks/outputs.py [NOTEBOOK.ipynb ...] [--model NAME=FOLDER ...]

The notebooks are kept without outputs. This writes those of ``NAME.ipynb`` to
``NAME.outputs.json``, one entry for each code cell, with the code that it was made by:
``docs/conf.py`` puts it below that cell, and a test compares the code with the notebook's. They run
in a temporary folder with the demo's files. ``--model`` gives a saved model for a name on the hub,
for a machine without a network.
"""

import argparse
import ast
import base64
import contextlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dwindle.runfiles import whole

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(HERE.glob("*.ipynb")))
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER")
    given = parser.parse_args()
    models = dict(one.split("=", 1) for one in given.model)
    for notebook in given.notebooks:
        codes, out = code_cells(notebook), notebook.resolve().with_suffix(".outputs.json")
        with laid_out(models):
            whole.write_text(
                out, json.dumps(list(executed(codes)), ensure_ascii=False, indent=1) + "\n"
            )


def code_cells(notebook: Path) -> list[str]:
    """The code of each code cell."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@contextlib.contextmanager
def laid_out(models: dict[str, str]) -> Iterator[None]:
    """For the time of the block, work where a notebook finds the demo and, by their names, these
    models."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        demo, here = Path(folder, "demo"), Path(folder, "notebooks")
        demo.mkdir()
        here.mkdir()
        for file in (HERE.parent / "demo").glob("*.jsonl"):
            shutil.copy(file, demo)
        for name, model in models.items():
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            (here / name).symlink_to(Path(model).resolve())
        os.chdir(here)
        try:
            yield
        finally:
            os.chdir(before)


def executed(codes: list[str]) -> Iterator[dict[str, Any]]:
    """Run cells one after another. Of each: its code, what it printed, its last value and its
    figures."""
    import matplotlib as mpl

    mpl.use("agg")
    space: dict[str, Any] = {"__name__": "notebook"}
    for code in codes:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            value = _run(code, space)
        html = value._repr_html_() if hasattr(value, "_repr_html_") else None
        text = printed.getvalue() + ("" if value is None or html else f"{value!r}\n")
        yield {"code": code, "text": text, "html": html or "", "figures": list(_figures())}


def _run(code: str, space: dict[str, Any]) -> Any:
    """Run a cell; the value of its last line, unless that ends in a semicolon."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), space)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), space) if last else None
    return None if code.rstrip().endswith(";") else value


def _figures() -> Iterator[str]:
    """The figures that are open, as PNG in base64; they are closed."""
    from matplotlib import pyplot

    for number in pyplot.get_fignums():
        drawn = io.BytesIO()
        pyplot.figure(number).savefig(drawn, format="png", dpi=100, metadata={"Software": None})
        yield base64.b64encode(drawn.getvalue()).decode()
    pyplot.close("all")


if __name__ == "__main__":
    main()
