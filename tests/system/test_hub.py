"""What the hub says of a name, asked once; and commands that are given a name it does not have."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dwindle.system import hub

PROGRAM = """
import json, sys
from dwindle.cli.main import main
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as stop:
        print(json.dumps([stop.code, "transformers" in sys.modules]), flush=True)
"""
RECIPE = """
about: a test
data: {{corpus: {corpus}, size: {{train: 4, dev: 2, test: 2}}}}
model: {{kind: {kind}, vocabulary: 400, size: tiny}}
training: {{steps: 2}}
decoding: {{beams: 1, max_length: 4}}
metrics: [rouge]
"""


@contextmanager
def answering(code: int, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """A hub that says the same to everybody, and what it was asked about models and data sets."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            if "/nobody/nothing" in self.path:
                asked.append(f"{self.command} {self.path}")
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("code", "headers", "said"),
    [
        (404, {}, "the hub has no model of that name, or not for you"),
        (
            404,
            {"X_Error_Code": "RepoNotFound"},
            "the hub has no model of that name, or not for you",
        ),
        (404, {"X_Error_Code": "EntryNotFound"}, None),
        (403, {"X_Error_Code": "GatedRepo"}, None),
        (500, {}, "the hub could not be asked: Server error '500"),
        (200, {"ETag": '"1"', "X_Repo_Commit": "1"}, None),
    ],
)
def test_what_a_hub_answers(code, headers, said, monkeypatch, tmp_path):
    library = pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with answering(code, **headers) as (address, asked):
        given = library.hf_hub_url
        monkeypatch.setattr(
            library,
            "hf_hub_url",
            lambda name, file, **more: given(name, file, endpoint=address, **more),
        )
        found = hub.absence("nobody/nothing", "model")
    assert found is None if said is None else found.startswith(said)
    assert asked == ["HEAD /nobody/nothing/resolve/main/config.json"]


def test_a_name_that_no_hub_could_have():
    pytest.importorskip("huggingface_hub")
    assert hub.absence("a/b/c", "data set").startswith("the hub could not be asked: ")


def test_a_model_in_the_cache_is_not_asked_for(monkeypatch):
    library = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(library, "try_to_load_from_cache", lambda name, file: "here")
    monkeypatch.setattr(library, "get_hf_file_metadata", lambda *a, **k: pytest.fail("asked"))
    assert hub.absence("nobody/nothing", "model") is None


def test_commands_refuse_what_a_bare_404_denies(tmp_path):
    """Each asks before transformers is imported: once, or twice for data, which may be cached."""
    pytest.importorskip("datasets")
    outputs, recipes = tmp_path / "outputs.jsonl", {}
    outputs.write_text('{"id": 1, "source": "a", "hypothesis": "b", "reference": "c"}\n')
    for what, corpus, kind in (
        ("data", "cnndm, path: 'hub:nobody/nothing'", "pointer-generator"),
        ("model", "newsroom", "transformer, start: nobody/nothing"),
    ):
        recipes[what] = tmp_path / f"{what}.yaml"
        recipes[what].write_text(RECIPE.format(corpus=corpus, kind=kind))
    name, file = "nobody/nothing", str(outputs)
    model = "HEAD /nobody/nothing/resolve/main/config.json"
    data = "HEAD /datasets/nobody/nothing/resolve/main/README.md"
    cases = [
        ["coverage", name, "--text", file],
        ["omissions", file, "--model", name],
        ["studio", name, "--port", "0"],
        ["run", str(recipes["model"]), "--out", str(tmp_path / "a")],
        ["run", str(recipes["data"]), "--out", str(tmp_path / "b")],
        ["score", file, "--metrics", f"mover:{name}"],
    ]
    with answering(404) as (address, asked):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(cases)],
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "HF_ENDPOINT": address,
                "HF_HOME": str(tmp_path / "home"),
                "NO_PROXY": "127.0.0.1",
            },
        )
    ends, said = done.stdout.splitlines(), done.stderr.splitlines()
    assert len(ends) == len(said) == len(cases), done.stderr
    for arguments, end, sentence in zip(cases, ends, said, strict=True):
        assert json.loads(end) == [2, False], (arguments, sentence)
        assert sentence.startswith("dwindle: "), sentence
        assert "the hub has no " in sentence, arguments
    assert asked == [*([model] * 4), data, data, model]
