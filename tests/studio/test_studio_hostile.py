"""A real studio with a real model against hostile requests: refused in a line, no trace, and it
serves on."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dwindle.checkpoints.opening import bring
from tests.checkpoints import test_fairseq_bart

GOOD = {
    "text": "low er cat ab",
    "answers": [{"model": 0, "rule": "", "layers": None}],
    "decoding": {"max_length": 5},
}


class Studio:
    """A process of ``dwindle studio`` and its link."""

    def __init__(self, folder: Path):
        (folder / "theirs").mkdir()
        test_fairseq_bart.write(folder / "theirs")
        bring(folder / "theirs", folder / "model")
        self.errors = (folder / "errors.txt").open("w+", encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "dwindle.cli.main",
            "studio",
            str(folder / "model"),
            "--port",
            "0",
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment
        )
        said = self.process.stdout.readline()
        self.port, self.token = re.match(r"Open http://127\.0\.0\.1:(\d+)/([\w-]+)/", said).groups()
        self.host = f"127.0.0.1:{self.port}"

    def raw(self, sent: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to these bytes; 0 if there is none."""
        answer = b""
        peer = socket.create_connection(("127.0.0.1", int(self.port)), timeout=60)
        with peer, contextlib.suppress(ConnectionError):
            peer.sendall(sent)
            while piece := peer.recv(65536):
                answer += piece
        head, _, body = answer.partition(b"\r\n\r\n")
        return (int(head.split()[1]), body) if head else (0, b"")

    def ask(
        self,
        method="GET",
        path="",
        body=b"",
        host=None,
        token=None,
        kind="application/json",
        **headers,
    ):
        lines = [
            f"{method} /{token or self.token}/{path} HTTP/1.1",
            f"Host: {host or self.host}",
            "Connection: close",
        ]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if method == "POST":
            lines += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
        return self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def post(self, asked, **more):
        return self.ask(
            "POST",
            "tasks",
            asked if isinstance(asked, bytes) else json.dumps(asked).encode(),
            **more,
        )

    def works(self) -> bool:
        status, body = self.ask(path="tasks?seen=")
        return status == 200 and "tasks" in json.loads(body)


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    made = Studio(tmp_path_factory.mktemp("studio"))
    yield made
    made.process.terminate()
    made.process.wait(30)
    made.process.stdout.close()
    made.errors.seek(0)
    with made.errors:
        assert "Traceback" not in made.errors.read()


def changed(**more):
    return {**GOOD, **more}


BAD = {
    "deep": (b"[" * 200_000, 400),
    "deep text": (b'{"text": ' + b'{"a": ' * 60_000, 400),
    "cut off": (json.dumps(GOOD).encode()[:-5], 400),
    "not UTF-8": (b'{"text": "\xff\xfe"}', 400),
    "half a surrogate pair": (
        b'{"text": "\\ud800", "answers": [{"model": 0}], "decoding": {}}',
        400,
    ),
    "a rule with half a surrogate pair": (
        b'{"text": "low", "answers": [{"model": 0, "rule": "\\udfff"}], "decoding": {}}',
        400,
    ),
    "a number of 100,000 digits": (b'{"text": ' + b"9" * 100_000 + b"}", 400),
    "a list": ([1, 2], 422),
    "nothing": (b"", 400),
    "null": (b"null", 422),
    "no such model": (changed(answers=[{"model": 7}]), 422),
    "a model below zero": (changed(answers=[{"model": -1}]), 422),
    "a rule of code": (
        changed(answers=[{"model": 0, "rule": "__import__('os').system('id')"}]),
        422,
    ),
    "a rule without an end": (changed(answers=[{"model": 0, "rule": "dim:" + "(" * 50_000}]), 422),
    "layers without number": (
        changed(answers=[{"model": 0, "rule": "dim:log", "layers": 10**30}]),
        422,
    ),
    "many outputs": (changed(answers=[{"model": 0}] * 5), 422),
    "a million beams": (changed(decoding={"beams": 1_000_000}), 422),
    "endless": (changed(decoding={"max_length": 10**15}), 422),
    "NaN": (
        b'{"text": "low", "answers": [{"model": 0}], "decoding": {"repetition_penalty": NaN}}',
        422,
    ),
    "infinity": (
        b'{"text": "low", "answers": [{"model": 0}], "decoding": {"repetition_penalty": 1e999}}',
        422,
    ),
    "an unknown setting": (changed(decoding={"__class__": 1}), 422),
    "a long text": (changed(text="x " * 60_000), 422),
    "too long a body": (b'{"text": "' + b"x" * 600_000 + b'"}', 413),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_one_sentence(studio, name):
    body, status = BAD[name]
    found, said = studio.post(body)
    assert found == status, said[:300]
    assert 0 < len(said) < 500
    assert studio.works()


def test_strangers_get_nothing(studio):
    for host in (
        "evil.example",
        f"evil.example:{studio.port}",
        "127.0.0.1",
        f"0.0.0.0:{studio.port}",
    ):
        assert studio.ask(host=host)[0] == 421
        assert studio.post(GOOD, host=host)[0] == 421
    wrong = studio.token[:-1] + ("a" if studio.token[-1] != "a" else "b")
    assert studio.ask(token=wrong)[0] in (404, 429)
    assert studio.post(GOOD, token=wrong)[0] in (404, 429)
    assert studio.post(GOOD, Sec_Fetch_Site="cross-site")[0] == 403
    assert studio.post(GOOD, Origin="http://evil.example")[0] == 403
    assert studio.post(GOOD, Origin=f"http://{studio.host}", kind="text/plain")[0] == 415
    assert studio.works()


@pytest.mark.parametrize(
    "path",
    [
        "../../etc/passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "static/../../x",
        "%00",
        "tasks/%ff",
    ],
)
def test_no_path_leads_to_a_file(studio, path):
    status, body = studio.ask(path=path)
    assert status in (404, 405, 429)
    assert b"root:" not in body
    assert studio.works()


def test_bytes_that_are_no_requests(studio):
    for sent in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20,
        b"GET\r\n\r\n",
        b"\0" * 5000,
    ):
        assert studio.raw(sent)[0] in (0, 400, 431)
    smuggled = (
        f"POST /{studio.token}/tasks HTTP/1.1\r\nHost: {studio.host}\r\nContent-Length: 3\r\n"
    )
    assert studio.raw(f"{smuggled}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode())[0] in (
        0,
        400,
        403,
        415,
    )
    assert studio.works()


def test_many_at_once_and_the_slow(studio):
    """Connections that stop in the middle of a request, while sixteen callers ask at the same
    time."""
    head = (
        f"POST /{studio.token}/tasks HTTP/1.1\r\nHost: {studio.host}\r\nContent-Type: "
        "application/json\r\n"
    )
    found = []
    with contextlib.ExitStack() as stack:
        for k in range(60):
            peer = stack.enter_context(
                socket.create_connection(("127.0.0.1", int(studio.port)), timeout=60)
            )
            peer.sendall((head + "Content-Length: 5000\r\n\r\n{").encode()[: 20 + 3 * k])
        callers = [
            threading.Thread(target=lambda: found.append(studio.post(GOOD)[0])) for _ in range(16)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(120)
    assert len(found) == 16
    assert set(found) <= {201, 422}  # taken, or a sentence that there is enough to do
    assert 201 in found
    assert studio.works()
