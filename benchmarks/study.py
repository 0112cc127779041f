"""Load on a real server: 200 raters at once cast 20,000 ballots over the loopback, each fsynced
before its answer.

    python benchmarks/study.py [--raters 200] [--ballots 20000] [--think 0.5] [--seconds 80]

A rater loads a page, thinks for a random time around ``--think`` seconds, posts the ballot, follows
to the next page; ``--think 0`` posts without a pause. Afterwards every ballot that was acknowledged
is looked up in the database. Prints a row for ``benchmarks/study.md``.
"""

import argparse
import asyncio
import json
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dwindle.runfiles.outputs import Item, outputs
from dwindle.study.design import design
from dwindle.study.store import Store, create

_PROOF = re.compile(rb'name="proof" value="(\w+)"')
_ANSWERS = (
    "representativeness=left&readability=tie&factual_left=yes&factual_right=no"
    "&comment=&seconds=12.5"
)


class Client:
    """One rater's connection, kept open: HTTP/1.1 by hand, for a client library would cost more
    than the server."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.home = port, f"/r/{token}"
        self.posts: list[float] = []
        self.pages: list[float] = []
        self.acknowledged = 0

    async def run(self, think: float, until: float, rng: random.Random) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.sleep(rng.uniform(0, think))
        where, page = self.home, await self.ask("GET", self.home, self.pages)
        body = f"proof={_proof(page[2])}"
        while time.monotonic() < until:
            status, location, _ = await self.ask("POST", where, self.posts, body)
            assert status == 303, (status, location)
            self.acknowledged += "saved=" in location
            if "/done" in location:
                break
            page = await self.ask("GET", location, self.pages)
            assert page[0] == 200, page
            where, body = location.partition("?")[0], f"proof={_proof(page[2])}&{_ANSWERS}"
            await asyncio.sleep(rng.uniform(0.5, 1.5) * think)
        self.writer.close()

    async def ask(
        self, method: str, path: str, times: list[float], body: str = ""
    ) -> tuple[int, str, bytes]:
        head = f"{method} {path} HTTP/1.1\r\nHost: study\r\nContent-Length: {len(body)}\r\n"
        head += "Content-Type: application/x-www-form-urlencoded\r\n" if body else ""
        start = time.perf_counter()
        self.writer.write(f"{head}\r\n{body}".encode())
        answer = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", answer, re.I)
        content = await self.reader.readexactly(int(length[1])) if length else b""
        times.append(time.perf_counter() - start)
        location = re.search(r"location: (\S+)", answer, re.I)
        return int(answer.split()[1]), location[1] if location else "", content


def _proof(page: bytes) -> str:
    match = _PROOF.search(page)
    assert match, page
    return match[1].decode()


def make(folder: Path, raters: int, ballots: int) -> None:
    """Texts as long as those of CNN/DM: sources of 700 words, summaries of 50."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 9))) for _ in range(3000)]

    def text(n: int) -> str:
        return ". ".join(" ".join(rng.choices(words, k=20)) for _ in range(n // 20)) + "."

    items = -(-ballots // 3)
    sources = [text(700) for _ in range(items)]
    a, b = (
        outputs(f"{name}.jsonl", [Item(str(i), text(60), source=s) for i, s in enumerate(sources)])
        for name in "ab"
    )
    create(design(a, b, items, 3, 1), folder, raters)


def memory(pid: int) -> float:
    """Resident megabytes."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024  # type: ignore[index]


async def watch(pid: int, seen: list[float]) -> None:
    while True:
        seen.append(memory(pid))
        await asyncio.sleep(1)


async def load(
    clients: list[Client], think: float, seconds: float, pid: int
) -> tuple[float, list[float]]:
    seen: list[float] = []
    watching = asyncio.create_task(watch(pid, seen))
    start = time.monotonic()
    await asyncio.gather(
        *(c.run(think, start + seconds, random.Random(i)) for i, c in enumerate(clients))
    )
    watching.cancel()
    return time.monotonic() - start, seen


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--raters", type=int, default=200)
    parser.add_argument("--ballots", type=int, default=20000)
    parser.add_argument("--think", type=float, default=0.5)
    parser.add_argument("--seconds", type=float, default=80)
    options = parser.parse_args()
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "study"
        make(folder, options.raters, options.ballots)
        command = [
            sys.executable,
            "-c",
            "from dwindle.cli.main import main; main()",
            "study",
            "serve",
            str(folder),
        ]
        server = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
        try:
            port = int(re.search(r":(\d+) ", server.stdout.readline())[1])  # type: ignore[union-attr, index]
            tokens = json.loads((folder / "links.json").read_text())["raters"].values()
            clients = [Client(port, token) for token in tokens]
            time.sleep(2)
            seconds, seen = asyncio.run(load(clients, options.think, options.seconds, server.pid))
            times = (Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2]).split()
        finally:
            server.terminate()
            server.wait()
        report(folder, clients, options, seconds, seen, (int(times[11]) + int(times[12])) / 100)


def report(
    folder: Path,
    clients: list[Client],
    options: argparse.Namespace,
    seconds: float,
    seen: list[float],
    cpu: float,
) -> None:
    with Store(folder) as store:
        rows = store.rows()
    acknowledged = sum(client.acknowledged for client in clients)
    distinct = len({(row.pair, row.rater) for row in rows})
    posts = _times([t for client in clients for t in client.posts])
    pages = _times([t for client in clients for t in client.pages])
    early = statistics.median(seen[len(seen) // 10 : len(seen) // 5 + 1])
    late = statistics.median(seen[-5:])
    cells = (
        options.raters,
        f"{options.think:g} s",
        acknowledged,
        acknowledged - distinct,
        len(rows) - distinct,
        round(acknowledged / seconds),
        posts,
        pages,
        f"{early:.0f} -> {late:.0f} MB",
        f"{cpu:.0f} s of {seconds:.0f} s",
    )
    print("|", " | ".join(map(str, cells)), "|")


def _times(seconds: list[float]) -> str:
    """Median, 95th percentile, longest."""
    values = (statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1], max(seconds))
    return " / ".join(f"{1000 * value:.0f}" for value in values) + " ms"


if __name__ == "__main__":
    main()
