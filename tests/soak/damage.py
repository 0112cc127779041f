"""Truncated and flipped bytes in every file that a verb reads: an answer or one sentence, never a
trace."""

import contextlib
import io
import shutil
import warnings
from pathlib import Path
from random import Random

from dwindle.cli.main import main
from tests import folders

CUTS = 25


def trial(random: Random, folder: Path) -> int:
    """One intact pair of runs, then one damaged file at a time."""
    good, other = folders.run(folder / "good", seed=1), folders.run(folder / "other", seed=2)
    files = sorted(file for file in good.rglob("*") if file.is_file())
    checks = 0
    for _ in range(CUTS):
        hurt = folder / "hurt"
        shutil.copytree(good, hurt)
        file = hurt / random.choice(files).relative_to(good)
        how = _damage(random, file)
        verb = random.choice(
            [
                ["report", str(hurt), str(other), "--out", str(folder / "page.html")],
                ["report", str(hurt), "--md", "--out", str(folder / "page.md")],
                ["score", str(hurt / "outputs.jsonl"), "--metrics", "rouge1,repetition,length"],
                [
                    "compare",
                    str(other / "outputs.jsonl"),
                    str(hurt / "outputs.jsonl"),
                    "--metrics",
                    "rouge1",
                ],
            ]
        )
        code, complaint = run(verb)
        assert code in (0, 2), (
            f"{' '.join(verb)} after {how} in {file.name}: code {code}: {complaint}"
        )
        if code == 2:
            assert complaint.startswith("dwindle: "), complaint
            assert "Traceback" not in complaint
        shutil.rmtree(hurt)
        checks += 1
    return checks


def _damage(random: Random, file: Path) -> str:
    content = bytearray(file.read_bytes())
    if not content or random.random() < 0.5:
        keep = random.randrange(len(content) + 1)
        file.write_bytes(content[:keep])
        return f"cut to {keep} of {len(content)} bytes"
    places = [random.randrange(len(content)) for _ in range(random.choice([1, 1, 8]))]
    for place in places:
        content[place] = random.randrange(256)
    file.write_bytes(content)
    return f"changed bytes {places}"


def run(arguments: list[str]) -> tuple[int, str]:
    """The exit code of a command, and what it complained."""
    errors = io.StringIO()
    with (
        contextlib.redirect_stderr(errors),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            main(arguments)
        except SystemExit as stop:
            return int(stop.code or 0), errors.getvalue()
    return 0, errors.getvalue()
