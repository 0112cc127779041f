"""Serve pages: take the port, say a sentence if it is taken, run until stopped. Knows no page."""

import errno
import socket

import uvicorn
from starlette.types import ASGIApp

from dwindle.web.protocol import Bounded


def bind(host: str, port: int) -> socket.socket:
    """A listening address. Port 0 takes any free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
    except socket.gaierror:
        raise ValueError(
            f"{host} is not an address of this machine: leave out --host, or name one that is"
        ) from None
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        taken.listen(1024)
    except OSError as error:
        taken.close()
        raise ValueError(_sentence(host, port, error)) from None
    return taken


def _sentence(host: str, port: int, error: OSError) -> str:
    code = error.errno
    if code == errno.EADDRINUSE:
        return f"port {port} of {host} is in use: choose another with --port, or stop what uses it"
    if code == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine: leave out --host, or name one that is"
    if code == errno.EACCES:
        return (
            f"port {port} may be opened by the administrator only: choose one from 1024 on with "
            "--port"
        )
    return f"cannot listen on port {port} of {host} ({error}): choose another with --port"


def answer(application: ASGIApp, listening: socket.socket) -> None:
    """Answer until interrupted. The access log is off: addresses hold tokens."""
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=2000,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        http=Bounded,
        ws="none",
        proxy_headers=False,
    )
    uvicorn.Server(config).run(sockets=[listening])
