"""The HTTP protocol of the server, bounded: how long a request may be, how long it may take to
arrive, and how many connections may wait for one. Knows nothing of pages.

uvicorn's own protocol has no such bounds: one endless header is collected in quadratic time, and
connections that never say anything are kept for ever.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD = 32 * 1024
"""Bytes of a request line with its headers; browsers send about one kilobyte."""
LONGEST_REQUEST = 1024 * 1024
"""Bytes of a whole request; a form is refused much earlier, by a page."""
SLOWEST_HEAD = 10.0
"""Seconds from the opening of a connection, or a request's first byte, to its headers' end."""
SLOWEST_BODY = 30.0
"""Seconds from there to its last byte."""
MOST_WAITING = 500
"""Connections without a request yet. The oldest makes room: browsers send theirs at once."""
TOO_LONG_A_HEAD = "431 Request Header Fields Too Large"


class Bounded(HttpToolsProtocol):
    """One connection."""

    waiting: dict["Bounded", None] = {}  # noqa: RUF012  (shared by all connections, oldest first)

    _timer: asyncio.TimerHandle | None = None
    _received = _head = 0
    _spoke = False
    _limit = LONGEST_HEAD

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect(SLOWEST_HEAD)
        if len(self.waiting) > MOST_WAITING:
            next(iter(self.waiting))._refuse("503 Service Unavailable")

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._spoke = True
        self._received += len(data)
        super().data_received(data)
        if self._received > self._limit:
            self._refuse(
                TOO_LONG_A_HEAD if self._limit == LONGEST_HEAD else "413 Content Too Large"
            )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._received, self._head, self._limit = 0, 0, LONGEST_HEAD
        self._expect(SLOWEST_HEAD)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head += len(name) + len(value)
        if self._head > LONGEST_HEAD:
            raise ValueError("too long a head")  # the parser stops, and send_400_response is called
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._limit = LONGEST_REQUEST
        self._expect(SLOWEST_BODY)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._expect_nothing()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._head > LONGEST_HEAD:
            self._refuse(TOO_LONG_A_HEAD)
        else:
            super().send_400_response(msg)

    def _expect(self, seconds: float) -> None:
        self._expect_nothing()
        self._timer = self.loop.call_later(seconds, self._refuse, "408 Request Timeout")
        self.waiting[self] = None

    def _expect_nothing(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        self.waiting.pop(self, None)

    def _refuse(self, status: str) -> None:
        """One line, and the end: no browser sends such a thing.

        A connection that never said anything hears nothing: browsers open one in advance, and would
        take the line for the answer to a request that they send at that very moment.
        """
        self._expect_nothing()
        if not self.transport.is_closing():
            if self._spoke:
                self.transport.write(
                    f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
                )
            self.transport.close()
