"""Reads a rater's form within bounds of size, time and number of fields, and shows a text.

Knows HTTP requests and ballots, not pages.
"""

import asyncio
import math
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from dwindle.study.questions import Questions
from dwindle.study.store import Ballot

LARGEST_POST = 64 * 1024
LONGEST_COMMENT = 2000
SLOWEST_POST = 20.0
_HIDDEN = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {0x7F: 0x2421}


class Incomplete(ValueError):
    """A form that a rater should look at once more. The message says why."""


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form, within the limits of size and time."""
    if (
        request.headers.get("content-type", "").partition(";")[0].strip().lower()
        != "application/x-www-form-urlencoded"
    ):
        raise HTTPException(415)
    body = bytearray()
    try:
        async with asyncio.timeout(SLOWEST_POST):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_POST:
                    raise HTTPException(413)
        return dict(
            parse_qsl(
                body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=20
            )
        )
    except (TimeoutError, ValueError):
        raise HTTPException(400) from None


def read_ballot(fields: dict[str, str], questions: Questions) -> Ballot:
    """The answers of a form; refuses one with a question left open."""
    allowed = questions.answers
    given = {name: fields.get(name, "") for name in allowed}
    if any(given[name] not in allowed[name] for name in allowed):
        raise Incomplete("Please answer every question: one of them is still open.")
    comment = fields.get("comment", "").replace("\r\n", "\n").strip()
    if len(comment) > LONGEST_COMMENT:
        raise Incomplete(f"Please shorten your comment to {LONGEST_COMMENT} characters.")
    return Ballot(given, comment=comment, seconds=_seconds(fields.get("seconds", "")))


def _seconds(text: str) -> float | None:
    """Time in view, at most a day; none if the page did not measure it."""
    try:
        seconds = float(text[:20])
    except ValueError:
        return None
    return min(max(seconds, 0.0), 86400.0) if math.isfinite(seconds) else None


def visible(text: str) -> str:
    """Control characters as their pictures: a browser would drop them or stumble."""
    return text.translate(_HIDDEN)
