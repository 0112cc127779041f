"""Every command of ``docs/PAPER.md``, run to its end as printed.

Capital words (RUN, FILE, FOLDER) stand for something of the reader, and are replaced by something
of the test. What would take long or a licence is made small: a recipe by settings behind those that
are printed and by a corpus of a few texts in the true format of its files, the benchmark by a tiny
model in place of BART. The settings as printed are read in full before.
"""

import json
import os
import re
import shlex
import signal
import socket
import threading
import time

import pytest
import typer

from dwindle.bench import model as bench
from dwindle.checkpoints.opening import bring
from dwindle.cli.main import app
from dwindle.models import presets
from dwindle.runs import recipe, schema, shelf
from tests import folders
from tests.attaching.small import SHAPE
from tests.checkpoints import test_fairseq_transformer
from tests.models.library_kit import bert
from tests.runs import corpora
from tests.runs.tiny_recipes import FEW, shrunk
from tests.test_paper import ROWS

COMMANDS = list(
    dict.fromkeys(text for row in ROWS for text in re.findall(r"`(dwindle [^`]+)`", row[4]))
)
SAID = [
    (recipe_, key, value)
    for row in ROWS
    for recipe_ in re.findall(r"`dwindle run ([\w/-]+)", row[4])
    for key, value in re.findall(r"`([a-z_]+\.[a-z_]+)=(\w+)`", row[5])
]
"""What the page says of the settings of a recipe."""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The files of a corpus."""
    folder, made = tmp_path_factory.mktemp("corpora"), {}

    def path(corpus):
        if corpus not in made:
            made[corpus] = corpora.make(corpus, folder)
        return made[corpus]

    return path


@pytest.fixture
def given(tmp_path, monkeypatch):
    """Something of the test's for every capital word."""
    monkeypatch.chdir(tmp_path)
    made = {
        "RUN": folders.run(tmp_path / "run"),
        "FOLDER": tmp_path / "folder",
        "STUDY": tmp_path / "study",
        "ENCODER": tmp_path / "encoder",
    }
    for name in ("FILE", "A", "B"):
        made[name] = folders.plain(tmp_path / f"{name}.jsonl", seed=name)
    return {**made, "CORPUS": "newsroom"}


def parsed(command, words, parent=None):
    """All of a command line: unknown verbs, options and missing arguments raise."""
    context = command.make_context(command.name or "dwindle", words, parent=parent)
    rest = [*getattr(context, "_protected_args", []), *context.args]
    if rest and hasattr(context.command, "resolve_command"):
        _, inner, rest = context.command.resolve_command(context, rest)
        parsed(inner, rest, context)


@pytest.mark.parametrize("text", COMMANDS)
def test_it_works_as_printed(text, given, path, run, monkeypatch):
    words = [
        re.sub(r"\b(RUN|FILE|FOLDER|STUDY|ENCODER|CORPUS|A|B)\b", lambda m: str(given[m[1]]), word)
        for word in shlex.split(text)[1:]
    ]
    parsed(typer.main.get_command(app), list(words))
    verb = next((verb for verb in WAYS if words[: len(verb.split())] == verb.split()), None)
    code, out, err = (WAYS[verb] if verb else plainly)(words, given, path, run, monkeypatch)
    refuted = words[0] == "certify" and code == 1  # the paper's theorem, by its own settings
    assert code == 0 or refuted, err
    assert out


def plainly(words, given, path, run, monkeypatch):
    return run(*words)


def a_recipe(words, given, path, run, monkeypatch):
    """Trained for two updates with all that it starts from, decoded and scored."""
    monkeypatch.setattr(presets, "_POSITIONS", 64)  # the library fills its tables in loops
    name, changes = words[1], words[2:]
    if changes == [f"model.start={given['FOLDER']}"]:
        given["FOLDER"].mkdir()
        test_fairseq_transformer.write(given["FOLDER"] / "theirs")
        bring(given["FOLDER"] / "theirs", given["FOLDER"] / "ours")
        changes = [f"model.start={given['FOLDER'] / 'ours'}"]
    recipe.read(name, changes)
    whole = shelf.mapping(name, changes)
    small = [change for change in shrunk(whole) if changes == [] or "model.start" not in change]
    found = path(whole["data"]["corpus"])
    small += FEW + ([f"data.path={found}"] if found else [])
    printed = run("run", name, *changes, *small, "--out", "made")
    waits = "mover is not measured: name an encoder with metrics.mover=FOLDER"
    assert printed[2].count(waits) == ("mover" in whole["metrics"]), printed[2]
    if printed[0] == 0:
        (line,) = (given["RUN"].parent / "made/outputs.jsonl").read_text().splitlines()
        assert json.loads(line).keys() >= {"id", "hypothesis"}
        assert json.loads((given["RUN"].parent / "made/scores.json").read_text())["items"] == 1
        assert "start" not in whole or (given["RUN"].parent / "made/start/model").is_dir()
    return printed


def statistics(words, given, path, run, monkeypatch):
    """Of a corpus that is read from files, a small one; of a made one, fewer texts."""
    found = path(words[2]) if words[2] != "newsroom" else None
    more = ["--path", found] if found else ["size.train=30", "size.dev=5", "size.test=5"]
    return run(*words, *more)


def a_score(words, given, path, run, monkeypatch):
    if words[-1].startswith("mover:"):
        bert(given["ENCODER"])
    return run(*words)


def a_study(words, given, path, run, monkeypatch):
    """It asks for the paper's 500 items."""
    for name in ("A", "B"):
        folders.plain(given[name], seed=name, count=500)
    return run(*words)


def a_server(words, given, path, run, monkeypatch):
    """Asked for a page by another thread, and stopped as by Ctrl-C."""
    study = ("new", str(given["A"]), str(given["B"]), "--items", "2", "--out", str(given["STUDY"]))
    assert run("study", *study)[0] == 0
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    answers = []
    visitor = threading.Thread(target=_visit, args=(port, answers))
    visitor.start()
    code, out, err = run(*words, "--port", str(port))
    visitor.join()
    assert answers == [b"HTTP/1.1 404"]
    assert code in (0, 130)
    return 0, out, err


def _visit(port, answers):
    for _ in range(400):
        try:
            with socket.create_connection(("127.0.0.1", port), 20) as connection:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                answers.append(connection.recv(100)[:12])
                break
        except ConnectionRefusedError:
            time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)


def a_benchmark(words, given, path, run, monkeypatch):
    """Steps and generation, of a tiny BART. Memory is measured in processes of their own, which
    have the model's real size only."""
    tiny = bench.Benched("Bart", {**SHAPE, "vocab_size": 50265}, 2, "dim:log")
    monkeypatch.setitem(bench.SIZES, "bart-base", tiny)
    parts = [word for part in bench.PARTS if part != "memory" for word in ("--part", part)]
    return run(*words, "--seconds", "0", "--source", "12", "--target", "8", *parts)


WAYS = {
    "run": a_recipe,
    "data stats": statistics,
    "score": a_score,
    "study new": a_study,
    "study serve": a_server,
    "bench model": a_benchmark,
}
"""How commands are run that need more than what is printed; the others are run as they are."""


def test_the_page_shows_every_way():
    """No way is left without a command, and all families of recipes are there."""
    lines = [text.split()[1:] for text in COMMANDS]
    assert all(any(verb.split() == line[: len(verb.split())] for line in lines) for verb in WAYS)
    families = {line[1].split("/")[0] for line in lines if line[0] == "run"}
    assert families >= {"cnndm", "nyt50", "image", "wmt14-en-de", "ablation", "newsroom"}


def test_a_named_encoder_measures_moverscore(given, path, run):
    """The columns of Tables 1 and 2 that wait for it."""
    encoder, corpus = bert(given["ENCODER"]), path("cnndm")
    changes = [f"metrics.mover={encoder}", f"data.path={corpus}", *FEW]
    code, _, err = run("run", "cnndm/lead-3", *changes, "--out", "made", "--json")
    assert code == 0, err
    assert "mover is not measured" not in err
    found = json.loads((given["RUN"].parent / "made/scores.json").read_text())
    scored = {score["metric"].partition(":")[0]: score["value"] for score in found["scores"]}
    assert scored["mover1"] != 0
    assert scored["mover2"] != 0


@pytest.mark.parametrize(("name", "key", "value"), SAID)
def test_the_page_says_what_the_recipe_does(name, key, value):
    found = dict(schema.flat(schema.plain(recipe.read(name))))
    assert str(found[key]).lower() == value


def test_the_page_says_something_of_settings():
    assert ("cnndm/pg", "training.batch_size", "32") in SAID
