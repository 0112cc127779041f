"""Keeps strangers out: tokens, proofs that a form is ours, rate limits, headers of answers.

A token is the only key that a visitor has. It is 256 bits from the system's randomness, stands in
the link, and is stored as its SHA-256. Knows no page.
"""

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src "
    "'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for "
    "'script'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Not "no-referrer": with it a browser hides the origin of a form from its own server.
    "Referrer-Policy": "same-origin",
    "X-Robots-Tag": "noindex, nofollow",
}


def new_token() -> str:
    return secrets.token_urlsafe(32)


def digest(token: str) -> bytes:
    """The stored form of a token, which cannot be inverted; 256 bits need no slow hash."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def same(one: bytes, two: bytes) -> bool:
    """Equality in constant time."""
    return hmac.compare_digest(one, two)


def proof(key: bytes, *of: str | int) -> str:
    """The hidden field of a form: only a page made with this key, for these values, has it."""
    return hmac.new(key, ":".join(map(str, of)).encode(), hashlib.sha256).hexdigest()


def proves(key: bytes, claim: str, *of: str | int) -> bool:
    return same(claim.encode("utf-8", "surrogatepass"), proof(key, *of).encode())


class Limiter:
    """Buckets of permissions by name: each holds at most ``burst``, refills ``rate`` a second.

    Remembers the last ``names`` names only, so its memory is bounded whoever asks.
    """

    def __init__(
        self,
        rate: float,
        burst: float,
        names: int = 4096,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate, self._burst, self._names, self._clock = rate, burst, names, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, name: str) -> bool:
        """Take one permission, if there is one."""
        now = self._clock()
        left, then = self._buckets.pop(name, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        self._buckets[name] = (max(left - 1, 0) if left >= 1 else left, now)
        if len(self._buckets) > self._names:
            self._buckets.popitem(last=False)
        return left >= 1


class Guard:
    """Adds headers to every answer, errors too. No browser stores a page, because it may be
    private."""

    def __init__(self, app: ASGIApp, policy: str = HEADERS["Content-Security-Policy"]) -> None:
        self._app = app
        self._headers = HEADERS | {"Content-Security-Policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                static = scope["path"].startswith("/static/")
                headers["Cache-Control"] = "max-age=3600" if static else "no-store"
            await send(message)

        await self._app(scope, receive, sending)
