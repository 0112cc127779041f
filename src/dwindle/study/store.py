"""The study folder: a database that a ballot enters whole or not at all, and the file of links.

Write-ahead log, synchronous=FULL: when a transaction ends, it is on the disk. Every change happens
inside ``transaction()``, which takes the one write lock at its start, so what a change reads cannot
change under it; servers and commands may share a folder. A ``Store`` belongs to the thread that
opened it. Knows no page and no statistics.
"""

import contextlib
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, cast

from dwindle.runfiles import whole
from dwindle.study import questions
from dwindle.study.database import VERSION, check, connect, sentences
from dwindle.study.design import Design, Identical, Pair, Side
from dwindle.study.questions import Questions
from dwindle.web import security

DATABASE, LINKS = "study.sqlite3", "links.json"
_NEW_LINKS = "take it from a copy; the study itself needs no links"
LEASE = 3600.0


@dataclass(frozen=True)
class Ballot:
    """One rater's answers about one pair, as seen, by the fields of the study's questions."""

    answers: Mapping[str, str]
    comment: str = ""
    seconds: float | None = None


@dataclass(frozen=True)
class Place:
    """One rater's turn at one pair, as the page shows it, without a hint at either system."""

    id: int
    number: int
    source: str
    left: str
    right: str
    before: int | None
    after: int | None
    ballot: Ballot | None


@dataclass(frozen=True)
class Row:
    """A ballot as the tally and the export see it. ``left`` says which text stood on the left."""

    pair: str
    check: bool
    rater: str
    left: Side
    ballot: Ballot
    first: float
    last: float
    changes: int
    counted: bool


class Store:
    """An open study. Close it, or use it in a ``with``."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.path, self._clock = folder / DATABASE, clock
        if not self.path.is_file():
            raise ValueError(
                f"{folder} has no study: make one with 'dwindle study new A.jsonl B.jsonl --out "
                f"{folder}'"
            )
        self._db = connect(self.path)
        try:
            with sentences(self.path):
                check(self._db, self.path)
                facts = dict(self._db.execute("SELECT name, value FROM fact"))
                (self._pairs,) = self._one("SELECT count(*) FROM pair")
            self.systems: tuple[str, str] = (facts["a"], facts["b"])
            self.raters = int(facts["raters"])
            self.seed = int(facts["seed"])
            self.lease = float(facts["lease"])
            self.identical, self.same = cast(Identical, facts["identical"]), int(facts["same"])
            self.questions: Questions = questions.parse(facts["questions"], "the study")
            self._code = facts["code"]
            self.key, self.owner = bytes.fromhex(facts["key"]), bytes.fromhex(facts["owner"])
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; on the disk when it ends."""
        with sentences(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    # Changes: inside a transaction only.

    def draw(self, rater: int) -> int | None:
        """The place that a rater should see now: the one that waits for an answer, or else the
        first free one.

        A place is free when it was never given, or given longer than a lease ago and not answered.
        """
        now = self._writing()
        place = self._waiting(rater)
        if place is None and (place := self._free(rater, now)):
            self._give(place, rater, now)
        if place:
            self._db.execute("UPDATE place SET lease = ? WHERE id = ?", (now + self.lease, place))
        return place

    def save(self, rater: int, place: int, ballot: Ballot) -> bool:
        """Keep a ballot in place of an earlier one of this rater and pair. True if it counts.

        It does not count when the place was passed on to somebody else. Such a ballot never
        replaces one that does.
        """
        now = self._writing()
        row = self._one("SELECT pair, rater FROM place WHERE id = ?", place)
        if row is None:
            raise ValueError(f"there is no place {place}")
        pair, holder = row
        if holder != rater and self._one(
            "SELECT 1 FROM place WHERE pair = ? AND rater = ? AND answered", pair, rater
        ):
            return False
        answers = json.dumps(dict(ballot.answers))
        self._db.execute(
            _SAVE, (pair, rater, place, answers, ballot.comment, ballot.seconds, now, now)
        )
        if holder == rater:
            self._db.execute("UPDATE place SET answered = 1 WHERE id = ?", (place,))
        return bool(holder == rater)

    def enter(self, rater: str, pair: int, left: Side, ballot: Ballot) -> bool:
        """Take a ballot from elsewhere into a free place of a pair. False if it is here already."""
        self._writing()
        self._db.execute("INSERT OR IGNORE INTO rater (name) VALUES (?)", (rater,))
        (number,) = self._one("SELECT id FROM rater WHERE name = ?", rater)
        if self._one("SELECT 1 FROM ballot WHERE pair = ? AND rater = ?", pair, number):
            return False
        free = self._one(
            "SELECT id FROM place WHERE pair = ? AND rater IS NULL ORDER BY id LIMIT 1", pair
        )
        if free is None:
            raise ValueError(
                f"item {pair} has no place for one more ballot: {self.raters} raters were asked for"
            )
        self._give(free[0], number, self._clock())
        self._db.execute("UPDATE place SET shown_left = ? WHERE id = ?", (left, free[0]))
        return self.save(number, free[0], ballot)

    def invite(self, count: int) -> None:
        """Add raters with new links."""
        self._writing()
        links = self.links()
        (known,) = self._one("SELECT count(*) FROM rater WHERE digest IS NOT NULL")
        for number in range(known + 1, known + count + 1):
            token = security.new_token()
            self._db.execute(
                "INSERT INTO rater (name, digest) VALUES (?, ?)",
                (f"rater {number}", security.digest(token)),
            )
            links["raters"][f"rater {number}"] = token
        _write_links(self.path.parent, links)

    def served_at(self, url: str) -> None:
        """Remember where raters reach the study, for links that are printed later."""
        self._writing()
        self._db.execute("INSERT OR REPLACE INTO fact VALUES ('url', ?)", (url,))

    # Questions.

    @property
    def url(self) -> str | None:
        """The address at which the study was served last."""
        row = self._one("SELECT value FROM fact WHERE name = 'url'")
        return row and str(row[0])

    def practice(self) -> Place | None:
        """The example that a rater may try before the first item, if the study has one."""
        row = self._one("SELECT source, shown_left, shown_right FROM practice")
        if row is None:
            return None
        source, left, right = row
        return Place(0, 0, source, left, right, None, None, None)

    def is_new(self, rater: int) -> bool:
        """True if a rater was never given a place."""
        return self._one("SELECT 1 FROM place WHERE rater = ?", rater) is None

    def code(self, rater: int) -> str:
        """The code by which a rater proves to have finished: the owner's, or the rater's own."""
        return self._code or security.proof(self.key, "finished", rater)[:8].upper()

    def links(self) -> dict[str, Any]:
        """The owner's token and each rater's, as they were given out."""
        file = self.path.parent / LINKS
        if not file.is_file():
            raise ValueError(f"{file} is gone, and links cannot be shown again: {_NEW_LINKS}")
        links = whole.read_json(file, _NEW_LINKS)
        if not isinstance(links.get("owner"), str) or not isinstance(links.get("raters"), dict):
            raise ValueError(f"{file} holds no links: {_NEW_LINKS}")
        return links

    def rater(self, token: str) -> int | None:
        """The rater with this token; None for a stranger's."""
        digest = security.digest(token)
        row = self._one("SELECT id, digest FROM rater WHERE digest = ?", digest)
        return int(row[0]) if row and security.same(row[1], digest) else None

    def is_owner(self, token: str) -> bool:
        return security.same(security.digest(token), self.owner)

    def place(self, rater: int, id: int) -> Place | None:
        """A place that this rater holds; None if it is another's or there is none."""
        if not 0 < id < 2**62:
            return None
        row = self._one(_PLACE, id, rater)
        if row is None:
            return None
        number, source, a, b, shown_left, before, after, answers, *rest = row
        left, right = (a, b) if shown_left == "a" else (b, a)
        ballot = Ballot(json.loads(answers), *rest) if answers else None
        return Place(id, number, source, left, right, before, after, ballot)

    def has_more(self, rater: int) -> bool:
        """True if there is a place left for this rater now."""
        return bool(self._waiting(rater) or self._free(rater, self._clock()))

    def done_and_left(self, rater: int) -> tuple[int, int]:
        """Number of pairs that a rater has answered, and the most that there may still be."""
        (done,) = self._one("SELECT count(*) FROM place WHERE rater = ? AND answered", rater)
        (waiting,) = self._one("SELECT count(*) FROM place WHERE answered = 0")
        return done, min(self._pairs - done, waiting)

    def answered(self, rater: int) -> list[tuple[int, int]]:
        """The places a rater has answered: number and id."""
        asked = "SELECT turn, id FROM place WHERE rater = ? AND answered ORDER BY turn"
        return list(self._db.execute(asked, (rater,)))

    def pairs(self) -> list[tuple[int, str, str, str, Side]]:
        """Every pair: its number, source, a, b, and the one on the left where all raters must see
        the same page."""
        with sentences(self.path):
            return list(
                self._db.execute("SELECT id, source, a, b, drawn_left FROM pair ORDER BY id")
            )

    def rows(self) -> list[Row]:
        """Every ballot, in the order of pairs and raters."""
        with sentences(self.path):
            return [_row(*values) for values in self._db.execute(_ROWS)]

    def counts(self) -> dict[str, int]:
        """Pairs, checks, places, places answered, and places held without an answer."""
        pairs, checks = self._one("SELECT count(*), total(is_check) FROM pair")
        places, answered = self._one("SELECT count(*), total(answered) FROM place")
        (held,) = self._one(
            "SELECT count(*) FROM place WHERE answered = 0 AND lease > ?", self._clock()
        )
        names = ("pairs", "checks", "places", "answered", "held")
        return dict(
            zip(names, map(int, (pairs - checks, checks, places, answered, held)), strict=True)
        )

    def raters_named(self) -> list[tuple[int, str]]:
        return list(self._db.execute("SELECT id, name FROM rater ORDER BY id"))

    def _waiting(self, rater: int) -> int | None:
        row = self._one(
            "SELECT id FROM place WHERE rater = ? AND answered = 0 ORDER BY turn LIMIT 1", rater
        )
        return row and int(row[0])

    def _free(self, rater: int, now: float) -> int | None:
        row = self._one(_FREE, now, rater)
        return row and int(row[0])

    def _give(self, place: int, rater: int, now: float) -> None:
        (turn,) = self._one("SELECT ifnull(max(turn), 0) + 1 FROM place WHERE rater = ?", rater)
        self._db.execute(
            "UPDATE place SET rater = ?, turn = ?, given = ? WHERE id = ?",
            (rater, turn, now, place),
        )

    def _writing(self) -> float:
        if not self._db.in_transaction:
            raise RuntimeError("a change outside a transaction")
        return self._clock()

    def _one(self, asked: str, *values: object) -> Any:
        return self._db.execute(asked, values).fetchone()


def _row(
    pair: str,
    check: int,
    rater: str,
    left: Side,
    answers: str,
    comment: str,
    seconds: float | None,
    first: float,
    last: float,
    changes: int,
    counted: int,
) -> Row:
    ballot = Ballot(json.loads(answers), comment, seconds)
    return Row(pair, bool(check), rater, left, ballot, first, last, changes, bool(counted))


def create(
    design: Design,
    folder: Path,
    links: int,
    lease: float = LEASE,
    asked: Questions = questions.SUMMARY,
    code: str = "",
) -> None:
    """Make a study folder, whole or not at all. ``code`` is what every rater sees at the end."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there already: name a new folder with --out, or remove it")
    if links < design.raters:
        raise ValueError(
            f"{design.raters} raters an item need as many links: give --links {design.raters} or "
            "more"
        )
    if not lease > 0:
        raise ValueError("a lease is a time in minutes above 0")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # mkdtemp lets only the owner in
    making = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _fill(making / DATABASE, design, lease, asked, code)
        with Store(making) as store, store.transaction():
            store.invite(links)
        if folder.exists():
            folder.rmdir()
        making.rename(folder)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


def _fill(path: Path, design: Design, lease: float, asked: Questions, code: str) -> None:
    # SQLite gives its other files the same mode
    os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    owner = security.new_token()
    _write_links(path.parent, {"owner": owner, "raters": {}})
    facts = {
        "a": design.systems[0],
        "b": design.systems[1],
        "raters": design.raters,
        "seed": design.seed,
        "lease": lease,
        "identical": design.identical,
        "same": design.same,
        "questions": questions.dump(asked),
        "code": code,
        "key": secrets.token_hex(32),
        "owner": security.digest(owner).hex(),
    }
    with sentences(path), contextlib.closing(connect(path)) as db:
        db.executescript(resources.files(__package__).joinpath("schema.sql").read_text("utf-8"))
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("BEGIN")
        db.executemany(
            "INSERT INTO fact VALUES (?, ?)", [(name, str(value)) for name, value in facts.items()]
        )
        if design.practice:
            db.execute("INSERT INTO practice VALUES (?, ?, ?)", _shown(design.practice))
        for number, pair in enumerate(design.pairs, 1):
            values = (number, pair.name, pair.check, pair.source, pair.a, pair.b, pair.left[0])
            db.execute("INSERT INTO pair VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            db.executemany(
                "INSERT INTO place (pair, shown_left) VALUES (?, ?)",
                [(number, s) for s in pair.left],
            )
        db.execute("COMMIT")


def _shown(pair: Pair) -> tuple[str, str, str]:
    left, right = (pair.a, pair.b) if pair.left[0] == "a" else (pair.b, pair.a)
    return pair.source, left, right


def _write_links(folder: Path, links: dict[str, Any]) -> None:
    """Replace the file in one step; nobody else may read it."""
    new = folder / f".{LINKS}.new"
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(links, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / LINKS)


_FREE = """
SELECT id FROM place WHERE answered = 0 AND lease <= ?1
    AND NOT EXISTS (SELECT 1 FROM ballot WHERE ballot.pair = place.pair AND ballot.rater = ?2)
ORDER BY pair, id LIMIT 1
"""

_PLACE = """
SELECT place.turn, source, a, b, shown_left,
    (SELECT id FROM place AS other
        WHERE other.rater = ?2 AND other.turn < place.turn ORDER BY turn DESC LIMIT 1),
    (SELECT id FROM place AS other
        WHERE other.rater = ?2 AND other.turn > place.turn ORDER BY turn LIMIT 1),
    answers, comment, seconds
FROM place
    JOIN pair ON pair.id = place.pair
    LEFT JOIN ballot ON ballot.pair = place.pair AND ballot.rater = ?2 AND ballot.place = place.id
WHERE place.id = ?1 AND place.rater = ?2
"""

_SAVE = """
INSERT INTO ballot (pair, rater, place, answers, comment, seconds, first, last)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (pair, rater) DO UPDATE SET
    changes = changes
        + ((place, answers, comment) IS NOT (excluded.place, excluded.answers, excluded.comment)),
    place = excluded.place,
    answers = excluded.answers,
    comment = excluded.comment,
    seconds = excluded.seconds,
    last = excluded.last
"""

_ROWS = """
SELECT pair.name, is_check, rater.name, shown_left, answers, comment, seconds, first, last, changes,
    place.rater = ballot.rater
FROM ballot JOIN pair ON pair.id = ballot.pair JOIN place ON place.id = ballot.place
    JOIN rater ON rater.id = ballot.rater
ORDER BY ballot.pair, ballot.rater
"""
