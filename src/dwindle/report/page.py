"""One page in one file: templates, style and script, and a policy that lets nothing leave it.

Every text is escaped by the template engine; data for the scripts is JSON in which no tag can end.
The policy names the one script and the one style by their digests, so that nothing else could run
even if it got into the file.
"""

import base64
import functools
import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from dwindle.runfiles import whole

REPORT = "dwindle.report"


def render(template: str, room: str = REPORT, allowed: str = "", **values: Any) -> str:
    """A whole page.

    Args:
        template: of this room, or of ``room``, whose ``page.css`` and ``page.js`` then follow those
            of this one.
        room: a package with templates of its own.
        allowed: what the policy lets the page do besides, such as playing the sounds inside it.
        values: for the template.
    """
    style, script = _joined("page.css", room), _joined("page.js", room)
    parts = [
        "default-src 'none'",
        f"style-src '{_digest(style)}'",
        f"script-src '{_digest(script)}'",
        allowed,
    ]
    policy = "; ".join(filter(None, [*parts, "base-uri 'none'", "form-action 'none'"]))
    made = _templates(room).get_template(template)
    return made.render(policy=policy, style=Markup(style), script=Markup(script), **values)


def write(path: Path, text: str) -> None:
    """Write a page, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole.write_text(path, text)


@functools.cache
def _templates(room: str) -> jinja2.Environment:
    templates = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(room), jinja2.PackageLoader(REPORT)]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["json"] = _json
    return templates


def _json(value: Any) -> Markup:
    """JSON that is also safe inside a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def asset(name: str, room: str = REPORT) -> str:
    """A file beside the templates of a room."""
    return resources.files(room).joinpath("templates", name).read_text(encoding="utf-8")


def _joined(name: str, room: str) -> str:
    return "\n".join(asset(name, one) for one in dict.fromkeys([REPORT, room]))


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
