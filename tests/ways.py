"""How many files of dwindle a person reads to follow one way through it: those in which a function
runs.

    python -m tests.ways [--names]

The ways are those of docs/ARCHITECTURE.md: one attention call, a recipe to its scores, outputs to a
page, and an audit of pairs. Files that are only imported do not count. Not a test: the numbers are
for whoever makes the house smaller.
"""

import contextlib
import inspect
import io
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

HOME = Path(__file__).parents[1] / "src" / "dwindle"
TINY = [
    "data.size={train: 8, dev: 2, test: 4}",
    "model.size=tiny",
    "model.vocabulary=300",
    "model.source_length=24",
    "training.steps=2",
    "training.batch_size=2",
    "decoding.min_length=1",
    "decoding.max_length=5",
]


@contextlib.contextmanager
def watched(found: set[str]) -> Iterator[None]:
    """Add every file of dwindle in which a function is called, in any thread."""

    def seen(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED  # bodies of modules and classes are not
        if event == "call" and is_function and code.co_filename.startswith(f"{HOME}/"):
            found.add(str(Path(code.co_filename).relative_to(HOME)))

    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def attention() -> Callable[[], object]:
    import torch

    import dwindle

    q, k, v = torch.randn(3, 2, 4, 8, 16)
    dwindle.attention(q, k, v, rule="dim:log")  # the first call builds the kernel
    return lambda: dwindle.attention(q, k, v, rule="dim:log")


def recipe_to_scores(folder: Path) -> Callable[[], object]:
    from dwindle.runs import recipe, steps

    return lambda: steps.run(recipe.read("newsroom/base", TINY), folder / "run")


def outputs_to_page(folder: Path) -> Callable[[], object]:
    from dwindle.cli.main import main

    def report() -> None:
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            main(
                [
                    "report",
                    str(folder / "run" / "outputs.jsonl"),
                    "--out",
                    str(folder / "page.html"),
                ]
            )
        assert (folder / "page.html").is_file()

    return report


def audit() -> Callable[[], object]:
    import dwindle
    from tests.auditing import small

    tokenizer = small.tokenizer()
    model = small.copier(len(tokenizer))
    ears = dwindle.listeners(model, tokenizer, small.TEXTS)
    return lambda: list(
        dwindle.omissions(model, tokenizer, [(text, "ferry") for text in small.TEXTS[:4]], ears)
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        ways = {
            "one attention call": attention,
            "a recipe to its scores": lambda: recipe_to_scores(folder),
            "outputs to a page": lambda: outputs_to_page(folder),
            "an audit of pairs": audit,
        }
        for name, prepare in ways.items():
            walk, found = prepare(), set[str]()
            with watched(found):
                walk()
            print(f"{len(found):4}  {name}", flush=True)
            if "--names" in sys.argv:
                print("".join(f"      {file}\n" for file in sorted(found)), end="")


if __name__ == "__main__":
    main()
