"""The studio's page and what it asks the desk for, under one secret address of this machine.

Requests are answered for the loopback's own names only, with the token in their path; what changes
something must come from the page itself. Knows nothing of sockets.
"""

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from dwindle import __version__
from dwindle.analysis.arms import told_apart
from dwindle.analysis.left_out import THRESHOLD
from dwindle.core.notation import PRESETS
from dwindle.data.sample import article
from dwindle.generation.interactive import Author
from dwindle.report import page
from dwindle.report.sections import LIMITS
from dwindle.runfiles import whole
from dwindle.runfiles.run import Run
from dwindle.studio import asked
from dwindle.studio.desk import Desk
from dwindle.web.security import Guard, Limiter, digest, same

PATIENCE = 2.0
"""Seconds that an answer waits for something new: Ctrl-C waits no longer either."""
LARGEST_POST = 512 * 1024
POLICY = "frame-ancestors 'none'; base-uri 'none'"
"""In the header; the page itself has the rest, with the digests of its script and its style."""
_RULES = (
    "plain",
    "training-free",
    "dim:log",
    "dim:boxcox(0.5)",
    "dydim:log,power(0.5)",
    "temporal",
)


def app(authors: Sequence[Author], token: str, port: int) -> ASGIApp:
    """The whole application for these models."""
    pages = Studio(authors, token, port)
    routes = [
        Route("/{token}/", pages.studio),
        Route("/{token}/tasks", pages.look),
        Route("/{token}/tasks", pages.submit, methods=["POST"]),
        Route("/{token}/tasks/{number:int}/stop", pages.stop, methods=["POST"]),
        Route("/{token}/tasks/{number:int}/{place:int}.svg", pages.picture),
    ]
    handlers = {HTTPException: _wrong}
    application = Starlette(
        routes=routes, exception_handlers=cast(Any, handlers), lifespan=pages.lifespan
    )
    application.router.redirect_slashes = False
    return Guard(application, POLICY)


class Studio:
    """The handlers of one studio."""

    def __init__(self, authors: Sequence[Author], token: str, port: int) -> None:
        self._authors = authors
        self._names = told_apart(
            [Path(author.path).resolve() for author in authors], [a.name for a in authors]
        )
        self._shown = self._names if len(authors) > 1 else [""]
        self._digest = digest(token)
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._origins = {f"http://{host}" for host in self._hosts}
        self._strangers = Limiter(rate=2, burst=30)
        self._html = page.render(
            "studio.html",
            "dwindle.studio",
            "connect-src 'self'",
            names=self._names,
            data=self._offered(),
            limits=LIMITS,
            version=__version__,
        )

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._desk = Desk()
        try:
            yield
        finally:
            await run_in_threadpool(self._desk.close)

    async def studio(self, request: Request) -> Response:
        self._known(request)
        return HTMLResponse(self._html)

    async def look(self, request: Request) -> Response:
        """All tasks, as soon as something has changed since the version ``seen``."""
        self._known(request)
        seen, number = (_number(request, name) for name in ("seen", "task"))
        await run_in_threadpool(self._desk.wait, -1 if seen is None else seen, PATIENCE)
        return JSONResponse(await run_in_threadpool(self._desk.data, number))

    async def submit(self, request: Request) -> Response:
        self._own(request)
        given = await _json(request)
        try:
            number = self._desk.submit(*asked.read(given, self._authors, self._shown))
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 422)
        return JSONResponse({"number": number}, 201)

    async def stop(self, request: Request) -> Response:
        self._own(request)
        self._desk.stop(request.path_params["number"])
        return Response(status_code=204)

    async def picture(self, request: Request) -> Response:
        """A still of one output, to keep."""
        self._known(request)
        number, place = (request.path_params[name] for name in ("number", "place"))
        try:
            drawn = await run_in_threadpool(self._desk.picture, number, place)
        except ValueError as error:
            raise HTTPException(404, str(error)) from None
        name = f"left-out-{number}-{place + 1}.svg"
        return Response(
            drawn, 200, {"Content-Disposition": f'attachment; filename="{name}"'}, "image/svg+xml"
        )

    def _known(self, request: Request) -> None:
        """Refuse a request without the link's token, or under another name than the loopback's.

        The name of another site may lead to this machine too.
        """
        if request.headers.get("host") not in self._hosts:
            raise HTTPException(
                421, "this address is not the studio's: use the link that it printed"
            )
        if not same(digest(request.path_params["token"]), self._digest):
            client = request.client.host if request.client else ""
            raise HTTPException(
                404 if self._strangers.allows(client) else 429,
                "use the link that the studio printed",
            )

    def _own(self, request: Request) -> None:
        """Refuse a request that does not come from the page itself."""
        self._known(request)
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise HTTPException(403, "this was not asked by the studio's page")
        if request.headers.get("origin", f"http://{request.headers['host']}") not in self._origins:
            # sent by a browser without sec-fetch-site
            raise HTTPException(403, "this was not asked by the studio's page")
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "this was not asked by the studio's page")

    def _offered(self) -> dict[str, Any]:
        """The choices that the page offers."""
        models = [
            {"name": name, "rule": author.rule, "layers": author.layers, "sample": _sample(author)}
            for name, author in zip(self._names, self._authors, strict=True)
        ]
        usual = self._authors[0].usual
        decoding = {name: getattr(usual, name) for name in (*asked.WHOLE, *asked.FRACTIONS)}
        rules = [*_RULES, *(name for name in PRESETS if name not in _RULES)]
        most = {"answers": asked.MOST_ANSWERS, "characters": asked.LONGEST}
        return {
            "models": models,
            "rules": rules,
            "decoding": decoding,
            "most": most,
            "threshold": THRESHOLD,
        }


def _sample(author: Author) -> str:
    """A text to begin with: one that the model's run was tested on, else the article that comes
    with dwindle, which is English; empty for a model that says it reads another language."""
    run = Run(Path(author.path))
    items = run.outputs.items if run.file("outputs.jsonl") else ()
    tokenizer = getattr(author.codec, "tokenizer", None)
    language = next(
        filter(None, (getattr(tokenizer, name, None) for name in ("source_lang", "src_lang"))), "en"
    )
    return next(
        (item.source for item in items if item.source),
        article() if language.startswith("en") else "",
    )


async def _json(request: Request) -> Any:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > LARGEST_POST:
                raise HTTPException(413, "the text is too long for any model: paste less")
    except ClientDisconnect:
        raise HTTPException(400, "this ended early") from None  # nobody hears it
    try:
        given = json.loads(body)
        # Half of a surrogate pair, which JSON can spell, would be in every later answer, and none
        # could be sent.
        whole.check_characters(json.dumps(given, ensure_ascii=False), "this")
        return given
    except (ValueError, RecursionError):
        raise HTTPException(400, "this is not JSON") from None


def _number(request: Request, name: str) -> int | None:
    given = request.query_params.get(name, "")
    return int(given) if given.isdecimal() and len(given) < 10 else None


async def _wrong(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 400
    detail = error.detail if isinstance(error, HTTPException) else str(error)
    return PlainTextResponse(f"dwindle studio: {detail}\n", status)
