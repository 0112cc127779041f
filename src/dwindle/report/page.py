"""One page in one file: templates, style and script put together, and a policy that lets nothing leave it.

Every text is escaped by the template engine; data for the scripts is JSON in which no tag can end. The policy names the
one script and the one style by their digests, so that nothing else could run even if it got into the file.
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

from dwindle.folder import whole


def render(template: str, sounds: bool = False, **values: Any) -> str:
    """A whole page. ``sounds``: whether it may play those that are inside it."""
    style, script = asset("page.css"), asset("page.js")
    allowed = f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    allowed += "; media-src data:" if sounds else ""
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    return (
        _templates().get_template(template).render(policy=policy, style=Markup(style), script=Markup(script), **values)
    )


def write(path: Path, text: str) -> None:
    """Write whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole.write_text(path, text)


@functools.cache
def _templates() -> jinja2.Environment:
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("dwindle.report"),
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


def asset(name: str) -> str:
    return resources.files("dwindle.report").joinpath("templates", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
