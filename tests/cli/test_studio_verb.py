"""``dwindle studio``: what is wrong is said before a page is offered."""

import socket

from dwindle.web import server
from tests.studio.studio_kit import Slow


def test_a_folder_that_is_not_there(run, tmp_path):
    (tmp_path / "empty").mkdir()
    code, said, complained = run("studio", str(tmp_path / "empty"), "--port", "0")
    assert (code, said) == (2, "")
    assert complained.splitlines()[-1].startswith("dwindle: ")
    assert "has no config.json" in complained


def test_a_port_that_is_taken(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, said, complained = run("studio", "none", "--port", str(taken.getsockname()[1]))
    assert (code, said) == (2, "")
    assert complained.count("\n") == 1
    assert "is in use: choose another with --port" in complained


def test_a_link_is_printed_and_served(run, monkeypatch):
    served = []
    monkeypatch.setattr("dwindle.generation.interactive.Author", Slow)
    monkeypatch.setattr(
        server, "answer", lambda app, listening: served.append(listening.getsockname())
    )
    code, said, _ = run("studio", "one", "two", "--port", "0")
    assert code == 0
    ((host, port),) = served
    assert host == "127.0.0.1"
    assert said.startswith(f"Open http://127.0.0.1:{port}/")
    assert len(said.split("/")[3]) >= 43


def test_a_model_must_be_named(run):
    code, _, complained = run("studio")
    assert code == 2
    assert "MODEL" in complained
