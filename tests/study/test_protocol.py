"""The server against strangers on a socket: long heads, endless ones, silence; and behind nginx
with TLS."""

import contextlib
import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path

import httpx2
import pytest

from dwindle.web import protocol
from tests.study import study_kit

GET = b"GET / HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return study_kit.make(tmp_path_factory.mktemp("study") / "study")


@pytest.fixture(scope="module")
def port(folder):
    server, port = study_kit.serving(folder)
    yield port
    study_kit.stop(server)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def status(peer: socket.socket) -> int:
    """The status of the answer; 0 if the connection ended without one."""
    with contextlib.suppress(ConnectionError):
        return int((peer.recv(1024) or b"x 0").split()[1])
    return 0


def test_requests_as_browsers_send_them(port, folder):
    with connect(port) as peer:
        for _ in range(2):  # one connection, two requests
            peer.sendall(GET + b"Cookie: " + b"c" * 4000 + b"\r\n\r\n")
            assert status(peer) == 404
            while b"</html>" not in peer.recv(65536):
                pass


def test_a_long_head_is_refused(port):
    with connect(port) as peer:
        peer.sendall(GET + b"X: " + b"a" * (protocol.LONGEST_HEAD + 1000) + b"\r\n\r\n")
        assert status(peer) == 431
    with connect(port) as peer:  # many short headers
        peer.sendall(GET + b"".join(b"X-%d: a\r\n" % i for i in range(8000)) + b"\r\n")
        assert status(peer) == 431


@pytest.mark.parametrize(
    "start",
    [b"GET /", GET + b"X: ", b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: "],
)
def test_an_endless_head_ends_soon(port, start):
    """In the address, in a header, in what may follow a body: the server stops reading long before
    60 MB."""
    sent = 0
    with connect(port) as peer, contextlib.suppress(ConnectionError):
        peer.sendall(start)
        while sent < 60_000_000:
            peer.sendall(b"a" * 65536)
            sent += 65536
    assert sent < 20_000_000


def test_the_silent_make_room(port):
    """More connections that say nothing than the server holds: everybody else is served."""
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connect(port)) for _ in range(protocol.MOST_WAITING + 50)]
        with connect(port) as peer:
            peer.sendall(GET + b"\r\n")
            assert status(peer) == 404
        assert silent[0].recv(1) == b""


def test_the_slow_are_dropped(folder):
    hasty = (
        "from dwindle.web import protocol\nprotocol.SLOWEST_HEAD = 0.3\nprotocol.SLOWEST_BODY = "
        "0.6\n"
    )
    server, port = study_kit.serving(folder, before=hasty)
    try:
        with connect(port) as peer:  # as a browser opens one in advance
            assert peer.recv(1) == b""
        for start in (b"GET / HT", GET, b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\na"):
            with connect(port) as peer:
                peer.sendall(start)
                answer = b""
                while piece := peer.recv(65536):
                    answer += piece
                assert answer.endswith(
                    b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n"
                    b"connection: close\r\n\r\n"
                )
    finally:
        study_kit.stop(server)


def test_a_slash_too_many_does_not_send_the_token_elsewhere(port, folder):
    token = study_kit.tokens(folder)[0]
    for path in (f"/r/{token}", f"/owner/{study_kit.owner(folder)}"):
        with connect(port) as peer:
            peer.sendall(f"GET {path}/ HTTP/1.1\r\nHost: stranger.example\r\n\r\n".encode())
            answer = peer.recv(65536).decode()
        assert " 308 " in answer
        assert f"\nlocation: {path}\r" in answer
        assert "stranger" not in answer


NGINX = """
daemon off; worker_processes 1; pid {home}/nginx.pid; error_log {home}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {home}/body; proxy_temp_path {home}/proxy; fastcgi_temp_path {home}/f;
  uwsgi_temp_path {home}/u;
  scgi_temp_path {home}/s;
  server {{
    listen 127.0.0.1:{tls} ssl; server_name localhost;
    ssl_certificate {home}/cert.pem; ssl_certificate_key {home}/key.pem;
    location / {{ proxy_pass http://127.0.0.1:{port}; proxy_set_header Host $host; }}
  }}
}}
"""


@pytest.mark.skipif(
    not (shutil.which("nginx") and shutil.which("openssl")), reason="no nginx or openssl here"
)
def test_behind_nginx_with_tls(folder, port, tmp_path):
    """As docs/STUDY.md has it: a rater goes from the guidelines to the second pair, all of it over
    TLS."""
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext "
        "subjectAltName=DNS:localhost"
    )
    keys = ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"]
    subprocess.run([*command.split(), *keys], check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        tls = free.getsockname()[1]
    (tmp_path / "nginx.conf").write_text(NGINX.format(home=tmp_path, tls=tls, port=port))
    proxy = subprocess.Popen(["nginx", "-c", tmp_path / "nginx.conf", "-e", tmp_path / "error.log"])
    try:
        context = ssl.create_default_context(cafile=tmp_path / "cert.pem")
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", tls), 1):
                break
            time.sleep(0.05)
        with httpx2.Client(base_url=f"https://localhost:{tls}", verify=context) as client:
            rater = study_kit.Rater(client, study_kit.tokens(folder)[1])
            rater.start()
            assert "saved=" in rater.vote()
            assert client.get(f"{rater.home}/").headers["location"] == rater.home
    finally:
        proxy.terminate()
        proxy.wait(20)
