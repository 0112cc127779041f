"""The verbs: what they print, and how trouble reads. One sentence, exit code 2, never a trace."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest
from starlette.testclient import TestClient

from dwindle.cli.main import main
from dwindle.runfiles.outputs import write
from dwindle.study import pages
from dwindle.study.store import DATABASE, Store
from tests.study import study_kit


@pytest.fixture
def run(capsys):
    def run(*arguments, code=0):
        with pytest.raises(SystemExit) as exit:
            main(["study", *map(str, arguments)])
        out = capsys.readouterr()
        assert exit.value.code == code, out
        if code:
            assert out.err.startswith("dwindle: ")
            assert out.err.count("\n") == 1
            return out.err
        return out.out

    return run


@pytest.fixture
def files(tmp_path):
    paths = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    for path, system in zip(paths, study_kit.systems(12), strict=True):
        write(path, system.items)
    return paths


@pytest.fixture
def new(run, files, tmp_path):
    out = tmp_path / "study"
    printed = run(
        "new",
        *files,
        "--items",
        4,
        "--raters",
        2,
        "--checks",
        2,
        "--links",
        3,
        "--seed",
        7,
        "--out",
        out,
    )
    return out, printed


def vote_all(folder):
    with TestClient(pages.app(folder), follow_redirects=False) as client:
        for token in study_kit.tokens(folder)[:2]:
            one = study_kit.Rater(client, token)
            one.start()
            while not one.vote(seconds="2").startswith("/done"):
                pass


def test_an_afternoon(new, run, tmp_path):
    folder, printed = new
    assert "4 items and 2 checks, 2 raters each, first and second." in printed
    assert "http" not in printed  # the port is not known before it is served
    assert run("status", folder, "--links").count("http://") == 4
    assert "https://x.org/r/" in run("status", folder, "--links", "--url", "https://x.org/")
    assert "no ballot counts so far" in run("tally", folder, code=2)
    vote_all(folder)
    status = json.loads(run("status", folder, "--json"))
    assert (status["answered"], status["places"], status["pairs"], status["checks"]) == (
        12,
        12,
        4,
        2,
    )
    assert [r["ballots"] for r in status["raters"]] == [6, 6, 0]
    assert "12 of 12 ballots" in run("status", folder)
    table = run("tally", folder)
    for word in (
        "8 ballots on 4 items by 2 raters",
        "first",
        "second",
        "Representativeness",
        "Factual correctness",
    ):
        assert word in table
    counted = json.loads(run("tally", folder, "--json"))
    assert counted["systems"] == ["first", "second"]
    assert sum(counted["comparisons"][0][k] for k in ("wins_a", "ties", "wins_b")) == 8
    assert run("tally", folder, "--table7").startswith("\\begin{tabular}")
    run("export", folder)
    lines = [json.loads(line) for line in (folder / "ballots.jsonl").read_text().splitlines()]
    assert len(lines) == 12
    assert {line["left"] for line in lines if not line["check"]} <= {"first", "second"}
    assert (folder / "ballots.csv").read_text().count("\n") == 13
    run("export", folder, "--out", tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere" / "ballots.csv").read_bytes() == (
        folder / "ballots.csv"
    ).read_bytes()


def test_no_number_is_cut_on_a_narrow_terminal(new, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    folder, _ = new
    vote_all(folder)
    for verb in ("status", "tally"):
        assert "…" not in run(verb, folder)
    assert all(len(line) <= 80 for line in run("tally", folder).splitlines() if "%" in line)


def test_raters_who_do_not_read_are_named(new, run):
    folder, _ = new
    vote_all(folder)
    for verb in ("status", "tally"):
        printed = run(verb, folder)
        assert "Warning: rater 1 answered in 2.0 seconds an item (median)." in printed
        assert re.search("Warning: rater 1 passed [01] of 2 attention checks", printed)
    assert json.loads(run("status", folder, "--json"))["raters"][0]["warnings"]


def test_a_study_of_translations_under_names_of_ones_own(files, run, tmp_path):
    out = tmp_path / "study"
    asked = [
        "--questions",
        "translation",
        "--names",
        "plain,diminished",
        "--practice",
        "--code",
        "C0DE",
    ]
    assert "plain and diminished." in run(
        "new", *files, "--items", 4, "--raters", 1, "--out", out, *asked
    )
    with TestClient(pages.app(out), follow_redirects=False) as client:
        one = study_kit.Rater(client, study_kit.tokens(out)[0])
        assert one.start() == "/practice"
        told = {
            "adequacy": "left",
            "fluency": "tie",
            "complete_left": "yes",
            "complete_right": "no",
        }
        assert one.vote(**told).endswith("?saved=practice")
        while not one.vote(**told).startswith("/done"):
            assert "summar" not in one.page.text.replace("<summary>", "").replace(
                "</summary>", ""
            ).replace('"summary', "")
        assert "C0DE" in one.page.text
    printed = run("tally", out)
    assert all(
        word in printed for word in ("plain", "diminished", "Adequacy", "Fluency", "Completeness")
    )
    assert r"\textbf{Adequacy Win}" in run("tally", out, "--table7")
    run("export", out)
    assert "adequacy_winner" in (out / "ballots.csv").read_text()
    assert "Left translation" in run("mturk", out) + (out / "mturk" / "template.html").read_text()


def test_identical_texts_are_passed_over_or_ties(files, run, tmp_path):
    first, second = files
    lines = first.read_text().splitlines(keepends=True)
    second.write_text("".join([*lines[:6], *second.read_text().splitlines(keepends=True)[6:]]))
    printed = run("new", *files, "--items", 6, "--raters", 1, "--out", tmp_path / "skip")
    assert "6 items" in printed
    assert "Items with identical texts: 6 in the files, not sampled" in printed
    assert "of which 6 have two texts that differ, and the study asks for 7" in run(
        "new", *files, "--items", 7, "--out", tmp_path / "more", code=2
    )
    printed = run(
        "new", *files, "--items", 12, "--raters", 2, "--identical", "tie", "--out", tmp_path / "tie"
    )
    assert "6 items" in printed
    assert "Items with identical texts: 6 of the sample" in printed
    vote_all(tmp_path / "tie")
    one, two = json.loads(run("tally", tmp_path / "tie", "--json"))["comparisons"]
    assert (one["wins_a"] + one["wins_b"], one["ties"], one["items_tied"] >= 6) == (12, 12, True)
    assert two["ties"] == 24
    assert "ties in the tally" in run("status", tmp_path / "tie")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("none.json", "is not a set of questions: name summary, translation or a JSON file"),
        ("{", "is not JSON"),
        ("[]", "is not a set of questions: give noun"),
        ('{"noun": "x"}', "compares nothing"),
        ('{"noun": "\\ud800"}', "noun is missing or too long"),
        ('{"noun": "x", "compared": [{"nome": "a"}]}', "'nome' is not known"),
        (
            '{"noun": "x", "compared": [{"name": "A b", "title": "t", "asked": "a", "meaning": '
            '"m"}]}',
            "be a column",
        ),
        (
            '{"noun": "x", "compared": [{"name": "comment", "title": "t", "asked": "a", '
            '"meaning": "m"}]}',
            "is taken",
        ),
        (
            '{"noun": "x", "compared": [{"name": "a", "title": "t", "asked": "a"}]}',
            "meaning is missing",
        ),
    ],
)
def test_bad_questions(files, run, tmp_path, given, complaint):
    file = tmp_path / "own.json"
    file.write_text(given)
    named = given if given.endswith(".json") else file
    out = tmp_path / "study"
    assert complaint in run("new", *files, "--items", 4, "--out", out, "--questions", named, code=2)
    assert "two different words" in run(
        "new", *files, "--items", 4, "--out", out, "--names", "x,x", code=2
    )
    assert not out.exists()


def test_links_for_more_raters(new, run):
    folder, _ = new
    assert run("invite", folder, 2).count("/r/") == 5
    (folder / "links.json").unlink()
    assert "links cannot be shown again" in run("status", folder, "--links", code=2)


@pytest.mark.parametrize(
    "content", ['{"owner": "x', "[]", '{"owner": 1, "raters": {}}', '{"owner": "x"}']
)
def test_damaged_links_are_named(new, run, content):
    folder, _ = new
    (folder / "links.json").write_text(content)
    for verb in (("status", folder, "--links"), ("invite", folder, 1)):
        assert f"{folder / 'links.json'} " in run(*verb, code=2)


def test_mechanical_turk_and_back(new, run):
    from tests.study.test_mturk import results

    folder, _ = new
    assert "2 assignments per task" in run("mturk", folder)
    path = results(folder, folder / "mturk" / "results.csv")
    assert "8 ballots on 4 items" in run("import-mturk", path)
    counted = json.loads(run("import-mturk", path, "--study", folder, "--json"))
    assert counted["comparisons"][0]["wins_b"] == 8


def test_the_seed_decides(files, run, tmp_path):
    def pairs(name, seed):
        run("new", *files, "--items", 5, "--raters", 1, "--seed", seed, "--out", tmp_path / name)
        with Store(tmp_path / name) as store:
            return store.pairs()

    assert pairs("x", 1) == pairs("y", 1) != pairs("z", 2)


def test_bad_files(files, run, tmp_path):
    first, second = files
    out = tmp_path / "study"
    assert "lower --items" in run("new", first, second, "--out", out, code=2)
    lines = second.read_text().splitlines(keepends=True)
    second.write_text("".join(lines[1:]))
    assert "lacks 1 ids" in run("new", first, second, "--items", 2, "--out", out, code=2)
    second.write_text("nonsense")
    assert "is not JSON" in run("new", first, second, "--items", 2, "--out", out, code=2)
    assert "there is no" in run("new", first, tmp_path / "none", "--items", 2, "--out", out, code=2)
    assert "named twice" in run("new", first, first, "--items", 2, "--out", out, code=2)
    assert not out.exists()


@pytest.mark.parametrize("verb", ["serve", "status", "tally", "export", "mturk"])
def test_no_study_folder(run, tmp_path, verb):
    assert "has no study: make one with 'dwindle study new" in run(verb, tmp_path / "none", code=2)


@pytest.mark.parametrize("verb", ["serve", "status", "tally", "export", "mturk"])
def test_a_corrupt_database(new, run, verb):
    folder, _ = new
    (folder / DATABASE).write_bytes(b"rubbish" * 1000)
    assert "is damaged" in run(verb, folder, code=2)


def test_a_busy_port_and_other_bad_addresses(new, run):
    folder, _ = new
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} of 127.0.0.1 is in use: choose another" in run(
            "serve", folder, "--port", port, code=2
        )
    assert "not an address of this machine" in run("serve", folder, "--host", "203.0.113.7", code=2)
    assert "--port" in run("serve", folder, "--port", 99999, code=2)


def test_a_full_disk_while_making_a_study(files, run, tmp_path, monkeypatch):
    from dwindle.study import store

    def small(path, connect=store.connect):
        db = connect(path)
        db.execute("PRAGMA max_page_count = 5")
        return db

    monkeypatch.setattr(store, "connect", small)
    assert "is full: free some space" in run(
        "new", *files, "--items", 4, "--out", tmp_path / "study", code=2
    )
    assert not (tmp_path / "study").exists()


def test_the_command_serves_on_the_loopback_with_links_of_its_port_and_stops_when_told(new, run):
    """The real command in its own process."""
    folder, _ = new
    command = [
        sys.executable,
        "-c",
        "from dwindle.cli.main import main; main()",
        "study",
        "serve",
        str(folder),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    server = subprocess.Popen(
        [*command, "--port", "0"], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        host, port = re.search(r"http://([\d.]+):(\d+) ", server.stdout.readline()).groups()
        assert host == "127.0.0.1"
        assert all(f" http://127.0.0.1:{port}/" in server.stdout.readline() for _ in range(4))
        assert run("status", folder, "--links").count(f"http://127.0.0.1:{port}/") == 4
        with socket.create_connection((host, int(port)), 20) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 404")
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=20)
    assert server.returncode in (0, 130, -signal.SIGINT)


def test_one_of_a_thing_is_not_many(run, tmp_path):
    a, b = (tmp_path / f"{name}.jsonl" for name in "ab")
    for file, words in ((a, "One text."), (b, "Another text.")):
        file.write_text(json.dumps({"id": "x", "source": "A source.", "hypothesis": words}) + "\n")
    printed = run("new", a, b, "--items", 1, "--raters", 1, "--out", tmp_path / "study")
    assert "1 item and 0 checks, 1 rater each" in printed
