"""What the tests of a study share: two small systems, a study folder, a rater who speaks HTTP
without a script."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from dwindle.runfiles.outputs import Item, Outputs, outputs
from dwindle.study.design import design
from dwindle.study.questions import SUMMARY, Questions
from dwindle.study.store import LEASE, Ballot, Store, create

GOOD = {
    "representativeness": "left",
    "readability": "tie",
    "factual_left": "yes",
    "factual_right": "no",
}
BALLOT = Ballot(GOOD)
SECRETS = ("secret-system-one", "secret-system-two")


def ballot(
    representativeness: str, readability: str, factual_left: str, factual_right: str, *more
) -> Ballot:
    """Answers to the paper's questions, in their order."""
    return Ballot(
        dict(
            zip(GOOD, (representativeness, readability, factual_left, factual_right), strict=True)
        ),
        *more,
    )


def systems(count: int = 20, **texts: str) -> tuple[Outputs, Outputs]:
    """Two systems with ``count`` items; ``source``, ``a`` and ``b`` may be set for all items."""

    def one(name: str, key: str) -> Outputs:
        return outputs(f"runs/{name}.jsonl", [_item(i, key, texts) for i in range(count)])

    return one(SECRETS[0], "a"), one(SECRETS[1], "b")


def _item(i: int, key: str, texts: dict[str, str]) -> Item:
    source = texts.get(
        "source", f"The cat number {i} sat on the mat. It was a happy cat.\nThen number {i} left."
    )
    ends = {
        "a": f"Cat {i} sat on the mat and then it went.",
        "b": f"A happy cat number {i} was seen on some mat.",
    }
    return Item(f"id-{i}", texts.get(key, ends[key]), source=source)


def make(
    folder: Path,
    items: int = 4,
    raters: int = 2,
    checks: int = 0,
    links: int = 3,
    lease: float = LEASE,
    practice: bool = False,
    asked: Questions = SUMMARY,
    code: str = "",
    **texts: str,
) -> Path:
    a, b = systems(max(items + checks, 1) + 4, **texts)
    create(design(a, b, items, raters, 1, checks, practice), folder, links, lease, asked, code)
    return folder


def tokens(folder: Path) -> list[str]:
    return list(json.loads((folder / "links.json").read_text())["raters"].values())


def owner(folder: Path) -> str:
    return json.loads((folder / "links.json").read_text())["owner"]


def change(folder: Path, job):
    """Do one change to a study and close it again."""
    with Store(folder) as store, store.transaction():
        return job(store)


class Rater:
    """Walks through a study as a browser without scripts would."""

    def __init__(self, client, token: str) -> None:
        self.client, self.home = client, f"/r/{token}"

    def get(self, path: str = "", **more):
        """A page by its address, or by what comes after the rater's own."""
        self.page = self.client.get(
            path if path.startswith(self.home) else self.home + path, **more
        )
        return self.page

    def proof(self) -> str:
        return re.search(r'name="proof" value="(\w+)"', self.page.text)[1]

    def start(self) -> str:
        self.get()
        return self._follow(self.client.post(self.home, data={"proof": self.proof()}))

    def vote(self, **answers) -> str:
        """Answer the page in view; the new address."""
        data = {"proof": self.proof(), "comment": "", "seconds": "", **GOOD, **answers}
        self.answer = self.client.post(str(self.page.url.path), data=data)
        return self._follow(self.answer)

    def _follow(self, answer) -> str:
        if answer.status_code != 303:
            self.page = answer
            return ""
        where = answer.headers["location"]
        self.get(where)
        return where.removeprefix(self.home)


SERVE = """
import sys
from pathlib import Path
from dwindle.study import pages
from dwindle.web import server
listening = server.bind("127.0.0.1", int(sys.argv[2]))
print(listening.getsockname()[1], flush=True)
server.answer(pages.app(Path(sys.argv[1])), listening)
"""


def process(script: str, *arguments: object) -> subprocess.Popen:
    """A Python process of its own that runs a script of the study."""
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def serving(folder: Path, port: int = 0, before: str = "") -> tuple[subprocess.Popen, int]:
    """A real server, and its port. ``before`` runs in its process first."""
    server = process(before + SERVE, folder, port)
    return server, int(server.stdout.readline())


def stop(server: subprocess.Popen) -> None:
    server.terminate()
    server.wait(20)
    server.stdin.close()
    server.stdout.close()
