"""The web pages: a rater's guidelines, one pair at a time, the end; the owner's progress.

A page that says "saved" is sent only after the writer's transaction is on the disk. Reading happens
on the event loop, for each question to the database takes well under a millisecond; the owner's
sums run in a thread. A page for raters is given texts and sides and never the names of the systems.
Knows nothing of sockets.
"""

import asyncio
import contextlib
import functools
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from dwindle.analysis import highlight
from dwindle.metrics.table import count
from dwindle.study import export, tally
from dwindle.study.database import Trouble
from dwindle.study.form import LONGEST_COMMENT, Incomplete, read_ballot, read_form, visible
from dwindle.study.questions import Questions
from dwindle.study.store import Ballot, Place, Row, Store
from dwindle.study.writer import Writer
from dwindle.web.security import Guard, Limiter, proof, proves

_WRONG = {
    400: ("This form cannot be read", "Open your personal link again and answer from there."),
    403: ("This form was not made here", "Open your personal link again and answer from there."),
    404: ("Nothing here", "Use the link that you were given, whole and without changes."),
    405: ("Nothing here", "Use the link that you were given, whole and without changes."),
    410: (
        "This item is not yours any more",
        "It was open for long and was passed on to somebody else.",
    ),
    413: ("That is too long", "Go back and shorten your comment."),
    415: ("This form cannot be read", "Open your personal link again and answer from there."),
    429: ("Too fast", "Wait a few seconds and load the page again."),
    503: (
        "The study cannot be reached",
        "Your answer was not saved. Please tell the organiser and try again later.",
    ),
}

Handler = Callable[[Request], Awaitable[Response]]


def app(folder: Path) -> ASGIApp:
    """The whole application for one study folder."""
    pages = Pages(folder)
    routes = [
        Route("/", pages.nothing),
        Route("/r/{token}", pages.guidelines),
        Route("/r/{token}", pages.start, methods=["POST"]),
        Route("/r/{token}/", pages.without_slash),
        Route("/r/{token}/done", pages.done),
        Route("/r/{token}/practice", pages.practice),
        Route("/r/{token}/practice", pages.practised, methods=["POST"]),
        Route("/r/{token}/{place}", pages.show),
        Route("/r/{token}/{place}", pages.answer, methods=["POST"]),
        Route("/owner/{token}", pages.owner),
        Route("/owner/{token}/", pages.without_slash),
        Route("/owner/{token}/ballots.{kind}", pages.download),
        Mount("/static", StaticFiles(packages=[("dwindle.study", "static")])),
    ]
    handlers = {HTTPException: pages.wrong, Trouble: pages.trouble, ClientDisconnect: pages.gone}
    application = Starlette(
        routes=routes, exception_handlers=cast(Any, handlers), lifespan=pages.lifespan
    )
    # The framework's own redirect names the scheme and the Host of the request: behind a proxy a
    # token would go out in clear, or to a stranger's host.
    application.router.redirect_slashes = False
    return Guard(application)  # outside everything, so that its headers are on errors too


class Pages:
    """The handlers of one study, its connection for reading and its writer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._strangers = Limiter(rate=2, burst=30)
        self._known = Limiter(rate=20, burst=60)
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("dwindle.study"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {"visible": visible, "count": count}

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        with Store(self._folder) as self._store:
            self._writer = Writer(self._folder)
            try:
                yield
            finally:
                await run_in_threadpool(self._writer.close)

    # Raters.

    async def guidelines(self, request: Request) -> Response:
        rater = self._rater(request)
        done, _ = self._store.done_and_left(rater)
        minutes = max(1, round(self._store.lease / 60))
        return self._page("guidelines.html", request, minutes=minutes, done=done,
                          proof=proof(self._store.key, rater, 0))  # fmt: skip

    async def start(self, request: Request) -> Response:
        rater = self._rater(request)
        await self._form(request, rater, 0)
        if self._store.is_new(rater) and self._store.has_more(rater) and self._store.practice():
            return _go(request, "practice")
        place = await self._write(lambda store: store.draw(rater))
        return _go(request, place or "done")

    async def practice(self, request: Request) -> Response:
        return self._practice(request, self._rater(request), {})

    async def practised(self, request: Request) -> Response:
        """Check the answers to the practice item, keep none of them, and go to the first item."""
        rater = self._rater(request)
        fields = await self._form(request, rater, "practice")
        try:
            read_ballot(fields, self._store.questions)
        except Incomplete as error:
            return self._practice(request, rater, fields, alert=str(error), status=422)
        place = await self._write(lambda store: store.draw(rater))
        return _go(request, f"{place or 'done'}?saved=practice")

    def _practice(
        self, request: Request, rater: int, answers: dict[str, Any], **more: Any
    ) -> Response:
        place = self._store.practice()
        if place is None:
            raise HTTPException(404)
        return self._pair(request, rater, place, answers, **more)

    async def done(self, request: Request) -> Response:
        rater = self._rater(request)
        places, more = self._store.answered(rater), self._store.has_more(rater)
        return self._page(
            "done.html",
            request,
            places=places,
            more=more,
            code=self._store.code(rater),
            proof=proof(self._store.key, rater, 0),
            **_saved(request),
        )

    async def show(self, request: Request) -> Response:
        rater = self._rater(request)
        place = self._store.place(rater, _number(request))
        if place is None:
            raise HTTPException(410)
        answers = _fields(place.ballot) if place.ballot else {}
        return self._pair(request, rater, place, answers, **_saved(request))

    async def answer(self, request: Request) -> Response:
        """Keep a ballot, draw what comes next, both on the disk, and only then go there."""
        rater, number = self._rater(request), _number(request)
        fields = await self._form(request, rater, number)
        try:
            ballot = read_ballot(fields, self._store.questions)
            counts, following = await self._write(
                lambda store: (store.save(rater, number, ballot), store.draw(rater))
            )
        except (Incomplete, Trouble) as error:
            place = self._store.place(rater, number)
            if place is None:
                raise
            text, status = (
                (str(error), 422) if isinstance(error, Incomplete) else (" ".join(_WRONG[503]), 503)
            )
            _report(error)
            return self._pair(request, rater, place, fields, alert=text, status=status)
        return _go(request, f"{following or 'done'}?saved={number if counts else f'late-{number}'}")

    def _pair(
        self,
        request: Request,
        rater: int,
        place: Place,
        answers: dict[str, Any],
        alert: str = "",
        status: int = 200,
        saved: str = "",
        saved_place: str = "",
    ) -> Response:
        done, left = self._store.done_and_left(rater)
        source = _source(place.source).sentences
        left_parts = _pieces(place.left, place.source)
        right_parts = _pieces(place.right, place.source)
        return self._page(
            "pair.html",
            request,
            status,
            place=place,
            answers=answers,
            source=source,
            alert=alert,
            left_parts=left_parts,
            right_parts=right_parts,
            done=done,
            left=left,
            saved=saved,
            saved_place=saved_place,
            longest=LONGEST_COMMENT,
            path=place.id or "practice",
            proof=proof(self._store.key, rater, place.id or "practice"),
        )

    # The owner.

    async def owner(self, request: Request) -> Response:
        self._owner(request)
        counts, people, rows = await run_in_threadpool(self._overview)
        return self._page(
            "owner.html",
            request,
            systems=self._store.systems,
            raters=self._store.raters,
            counts=counts,
            people=people,
            rows=rows,
            identical=self._store.identical,
            same=self._store.same,
        )

    async def download(self, request: Request) -> Response:
        self._owner(request)
        kinds = {
            "csv": (export.as_csv, "text/csv"),
            "jsonl": (export.as_jsonl, "application/jsonl"),
        }
        if request.path_params["kind"] not in kinds:
            raise HTTPException(404)
        make, media = kinds[request.path_params["kind"]]
        rows = await run_in_threadpool(self._rows)
        name = f"attachment; filename=ballots.{request.path_params['kind']}"
        lines = make(rows, self._store.systems, self._store.questions)
        return StreamingResponse(lines, media_type=media, headers={"Content-Disposition": name})

    def _rows(self) -> list[Row]:
        with Store(self._folder) as store:
            return store.rows()

    def _overview(self) -> tuple[Any, ...]:
        with Store(self._folder) as store:
            rows = store.rows()
            return (
                store.counts(),
                export.people(store, rows),
                by_question(rows, store.raters, store.questions),
            )

    # What every handler needs.

    def _rater(self, request: Request) -> int:
        """The rater whose token is in the address. Guessing tokens is slowed down."""
        rater = self._store.rater(request.path_params["token"])
        if rater is None:
            raise HTTPException(404 if self._strangers.allows(_address(request)) else 429)
        if not self._known.allows(str(rater)):
            raise HTTPException(429)
        return rater

    def _owner(self, request: Request) -> None:
        if not self._store.is_owner(request.path_params["token"]):
            raise HTTPException(404 if self._strangers.allows(_address(request)) else 429)
        if not self._known.allows("owner"):
            raise HTTPException(429)

    async def _form(self, request: Request, rater: int, place: int | str) -> dict[str, str]:
        """The fields of a form that this study made for this rater and this place."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise HTTPException(403)
        fields = await read_form(request)
        if not proves(self._store.key, fields.get("proof", ""), rater, place):
            raise HTTPException(403)
        return fields

    async def _write(self, job: Callable[[Store], Any]) -> Any:
        """Let the writer do a job. A client that hangs up does not stop it."""
        future: Future[Any] = self._writer.submit(job)
        return await asyncio.shield(asyncio.wrap_future(future))

    def _page(
        self, template: str, request: Request, status: int = 200, **values: Any
    ) -> HTMLResponse:
        page = self._templates.get_template(template)
        return HTMLResponse(
            page.render(home=_home(request), asked=self._store.questions, **values), status
        )

    # When things go wrong: one calm page, never a trace.

    async def without_slash(self, request: Request) -> Response:
        """A link with a slash too many, as some mail programs make it."""
        return RedirectResponse(_home(request) or "/", status_code=308)

    async def nothing(self, request: Request) -> Response:
        return self._message(request, 404)

    async def wrong(self, request: Request, error: Exception) -> Response:
        return self._message(
            request, error.status_code if isinstance(error, HTTPException) else 400
        )

    async def trouble(self, request: Request, error: Exception) -> Response:
        _report(error)
        return self._message(request, 503)

    async def gone(self, request: Request, error: Exception) -> Response:
        return Response(status_code=400)

    def _message(self, request: Request, status: int) -> Response:
        title, text = _WRONG.get(status, _WRONG[400])
        home = _home(request) if status in (400, 403, 410, 413) else ""
        page = self._templates.get_template("message.html").render(
            title=title, text=text, home=home
        )
        return HTMLResponse(page, status)


def by_question(rows: list[Row], raters: int, asked: Questions) -> list[dict[str, Any]]:
    """For each question: answers so far, complete items, agreement. Says not who leads."""
    items = tally.by_item(
        tally.vote(row, asked) for row in rows if row.counted and not row.check
    ).values()
    complete = sum(len(of) == raters for of in items)
    units: dict[str, list[list[Any]]] = {q.name: [[v.preferred[q.name] for v in of] for of in items]
                                         for q in asked.compared}  # fmt: skip
    for q in asked.each:
        units[q.name] = [
            [v.said_yes[q.name][system] for v in of] for of in items for system in (0, 1)
        ]
    found = []
    for question in asked.all:
        agreed, alpha = tally.agreement(units[question.name]), tally.alpha(units[question.name])
        found.append({
            "title": question.title,
            "answers": sum(map(len, units[question.name])),
            "complete": complete,
            "agreement": "–" if agreed is None else f"{100 * agreed:.1f} %",
            "alpha": "–" if alpha is None else f"{alpha:.3f}",
        })  # fmt: skip
    return found


def _fields(ballot: Ballot) -> dict[str, Any]:
    """A ballot as the form that made it."""
    return {**ballot.answers, "comment": ballot.comment, "seconds": ballot.seconds}


@functools.lru_cache(maxsize=64)
def _source(text: str) -> highlight.SourceText:
    return highlight.SourceText(text)


@functools.lru_cache(maxsize=128)
def _pieces(summary: str, source: str) -> list[highlight.Piece]:
    return _source(source).pieces(summary)


def _number(request: Request) -> int:
    text = request.path_params["place"]
    if not re.fullmatch("[0-9]{1,15}", text):
        raise HTTPException(404)
    return int(text)


def _saved(request: Request) -> dict[str, Any]:
    """The notice that something was just saved, as the address says; it changes nothing else."""
    match = re.fullmatch("(late-)?([0-9]{1,15})|practice", request.query_params.get("saved", ""))
    if not match:
        return {"saved": "", "saved_place": ""}
    kind = "practice" if match[2] is None else "late" if match[1] else "yes"
    return {"saved": kind, "saved_place": match[2] or "practice"}


def _home(request: Request) -> str:
    """The rater's or owner's own address; made only of a token, so it can hold nothing else."""
    token = request.path_params.get("token", "")
    kind = "owner" if request.url.path.startswith("/owner/") else "r"
    return f"/{kind}/{token}" if re.fullmatch("[A-Za-z0-9_-]{1,100}", token) else ""


def _go(request: Request, where: object) -> Response:
    return RedirectResponse(f"{_home(request)}/{where}", status_code=303)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _report(error: Exception) -> None:
    if isinstance(error, Trouble):
        print(f"dwindle: {error}", file=sys.stderr, flush=True)
