"""Hostile text in every field of every page: it is shown, and never becomes part of the page."""

import json
from html.parser import HTMLParser
from pathlib import Path
from random import Random

from starlette.testclient import TestClient

from dwindle.study import pages
from tests.soak.damage import run
from tests.study import study_kit

PARTS = [
    "<script>x()</script>", "</script>", "<img src=x onerror=x()>", "<hostile>",
    "'\"><hostile a='", "{{ 7*7 }}",
    "{% x %}", "javascript:x()", "&lt;hostile&gt;", "<!--", "-->", "]]>", "\u202e", "\x00",
    "\x1b[31m",
    "\ud7ff", "\n", "\r", "\t",
    "\\", "=cmd()", "${x}", "`", "\u2028", "é", "漢", "</textarea>", "</style>", "</title>",
]  # fmt: skip


class Tags(HTMLParser):
    """The names of all elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {tag, *(f"@{name}" for name, _ in attrs)}


def trial(random: Random, folder: Path) -> int:
    def text() -> str:
        return "".join(random.choices(PARTS, k=random.randint(1, 6)))

    files = [folder / f"{name}.jsonl" for name in ("one", "<hostile>two")]
    shared = [(f"{i}{text()}", text(), text()) for i in range(6)]
    for file in files:
        lines = [
            {
                "id": key,
                "source": f"source {source}",
                "reference": f"words {reference}",
                "hypothesis": f"some {text()}",
            }
            for key, source, reference in shared
        ]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    code, complaint = run(["report", *map(str, files), "--out", str(folder / "page.html")])
    assert code == 0, complaint
    _harmless((folder / "page.html").read_text(encoding="utf-8"))
    return 1 + _study(folder, text)


def _study(folder: Path, text) -> int:
    """All pages of a rater and of the owner."""
    made = study_kit.make(
        folder / "study",
        items=2,
        raters=1,
        links=1,
        source=text(),
        a=f"one {text()}",
        b=f"two {text()}",
    )
    seen = 0
    with TestClient(pages.app(made), follow_redirects=False) as client:
        rater = study_kit.Rater(client, study_kit.tokens(made)[0])
        rater.start()
        for _ in range(3):
            _harmless(rater.page.text)
            seen += 1
            if "done" in str(rater.page.url):
                break
            rater.vote(comment=text())
        _harmless(client.get(f"/owner/{study_kit.owner(made)}").text)
    return seen + 1


def _harmless(page: str) -> None:
    tags = Tags()
    tags.feed(page)
    assert "hostile" not in tags.found, "text became an element"
    assert "@onerror" not in tags.found, "text became an attribute"
