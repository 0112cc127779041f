"""The study folder: what a ballot may rely on. Time is a number that the tests move."""

import contextlib
import os
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dwindle.study import database, store
from dwindle.study.database import Trouble
from dwindle.study.store import Store
from dwindle.study.writer import Writer
from tests.study import study_kit
from tests.study.study_kit import BALLOT, ballot

OTHER = ballot("right", "right", "no", "yes", "changed", 3.0)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@contextlib.contextmanager
def opened(folder, clock=None):
    """A study with one transaction around everything, so that the test waits for the disk once."""
    with Store(folder, clock or Clock()) as opened, opened.transaction():
        yield opened


def test_a_commit_waits_for_the_disk(folder):
    with contextlib.closing(database.connect(folder / store.DATABASE)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_only_the_owner_of_the_folder_can_read_it(folder):
    modes = {path.name: path.stat().st_mode & 0o777 for path in [folder, *folder.iterdir()]}
    assert modes.pop("study") == 0o700
    assert set(modes.values()) == {0o600}
    assert {"study.sqlite3", "links.json"} <= set(modes)


def test_tokens_are_stored_as_digests(folder):
    with Store(folder) as opened:
        first, *_ = study_kit.tokens(folder)
        assert opened.rater(first) == 1
        assert opened.rater(first[:-1]) is None
        assert opened.rater("") is None
        assert opened.is_owner(study_kit.owner(folder))
        assert not opened.is_owner(first)
    content = b"".join(path.read_bytes() for path in folder.glob("study.sqlite3*"))
    assert not any(
        token.encode() in content for token in [*study_kit.tokens(folder), study_kit.owner(folder)]
    )


def test_a_rater_sees_one_place_until_it_is_answered(folder):
    with opened(folder) as s:
        first = s.draw(1)
        assert s.draw(1) == first
        assert s.save(1, first, BALLOT)
        second = s.draw(1)
        assert second != first
        assert (s.place(1, first).after, s.place(1, second).before) == (second, first)
        assert s.place(1, first).ballot == BALLOT
        assert s.place(2, first) is None


def test_everybody_gets_every_pair_once_and_no_pair_more_raters_than_asked(folder):
    with opened(folder) as s:
        for rater in (1, 2, 3):
            while place := s.draw(rater):
                s.save(rater, place, BALLOT)
        rows = s.rows()
        assert len(rows) == 8
        assert sum(r.rater == "rater 3" for r in rows) == 0
        assert s.draw(3) is None
        assert not s.has_more(3)
        assert s.done_and_left(1) == (4, 0)


def test_a_ballot_can_be_changed_and_the_same_one_twice_is_no_change(folder):
    with opened(folder) as s:
        place = s.draw(1)
        for given in (BALLOT, BALLOT, OTHER):
            assert s.save(1, place, given)
        (row,) = s.rows()
        assert (row.ballot, row.changes, row.counted) == (OTHER, 1, True)


def test_what_was_left_open_returns_to_the_pool(folder):
    clock = Clock()
    with opened(folder, clock) as s:
        place = s.draw(1)
        other = s.draw(2)
        assert s.place(1, place).source == s.place(2, other).source
        third = s.draw(3)
        assert s.place(3, third).source != s.place(1, place).source
        clock.now += store.LEASE - 1
        assert s.draw(3) == third
        s.save(3, third, BALLOT)
        clock.now += 1
        assert s.draw(3) == place  # rater 1 lost it
        assert s.place(1, place) is None


def test_a_late_ballot_counts_if_nobody_else_took_the_place_and_is_kept_if_somebody_did(folder):
    clock = Clock()
    with opened(folder, clock) as s:
        place = s.draw(1)
        clock.now += 10 * store.LEASE
        assert s.save(1, place, BALLOT)  # still its holder
        lost = s.draw(1)
        clock.now += 10 * store.LEASE
        assert s.draw(2) == place + 1
        s.save(2, place + 1, BALLOT)
        assert s.draw(2) == lost
        assert not s.save(1, lost, OTHER)
        assert [r.counted for r in s.rows() if r.ballot == OTHER] == [False]
        assert s.draw(2) == lost  # it still waits for its new holder
        s.save(2, lost, BALLOT)
        assert sum(r.counted for r in s.rows()) == 3
        while (more := s.draw(1)) is not None:  # never the pair again on which a ballot was kept
            assert s.place(1, more).source != s.place(2, lost).source
            s.save(1, more, BALLOT)


def test_a_stale_form_does_not_replace_a_ballot_that_counts(folder):
    clock = Clock()
    with opened(folder, clock) as s:
        lost = s.draw(1)
        clock.now += 10 * store.LEASE
        assert s.draw(2) == lost
        again = s.draw(1)  # the other place of the same pair
        assert again == lost + 1
        assert s.save(1, again, BALLOT)
        assert not s.save(1, lost, OTHER)
        assert [r.ballot for r in s.rows()] == [BALLOT]


def test_a_change_needs_a_transaction(folder):
    with Store(folder) as s, pytest.raises(RuntimeError, match="outside"):
        s.draw(1)


def test_a_failed_transaction_leaves_nothing(folder):
    with Store(folder) as s:
        with contextlib.suppress(KeyError), s.transaction():
            s.save(1, s.draw(1), BALLOT)
            raise KeyError
        assert s.rows() == []
        assert s.counts()["held"] == 0


class Life(RuleBasedStateMachine):
    """Any order of drawing, answering, going away and coming back, against a plain model of who was
    told what."""

    @initialize()
    def begin(self):
        self.folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"life-{os.getpid()}"
        shutil.rmtree(self.folder, ignore_errors=True)
        study_kit.make(self.folder, items=3, raters=2, links=4)
        self.clock = Clock()
        self.store = Store(self.folder, self.clock)
        # thousands of steps; no disk is under test here
        self.store._db.execute("PRAGMA synchronous = OFF")
        self.pages, self.told = set(), {}

    @rule(rater=st.integers(1, 4))
    def draw(self, rater):
        with self.store.transaction():
            place = self.store.draw(rater)
        if place:
            self.pages.add((rater, place))

    @precondition(lambda self: self.pages)
    @rule(data=st.data(), choice=st.sampled_from(["left", "tie", "right"]))
    def answer(self, data, choice):
        rater, place = data.draw(st.sampled_from(sorted(self.pages)))
        given = ballot(choice, choice, "yes", "no")
        with self.store.transaction():
            counts = self.store.save(rater, place, given)
        if counts:
            self.told[rater, place] = given

    @rule(seconds=st.sampled_from([60.0, store.LEASE]))
    def wait(self, seconds):
        self.clock.now += seconds

    @invariant()
    def holds(self):
        if not hasattr(self, "store"):
            return
        db = self.store._db
        held = db.execute(
            "SELECT pair, count(DISTINCT rater) FROM place WHERE rater NOT NULL GROUP BY pair"
        ).fetchall()
        assert all(raters <= 2 for _, raters in held)
        rows = self.store.rows()
        assert len({(r.pair, r.rater) for r in rows}) == len(rows)
        assert set(db.execute("SELECT rater, id FROM place WHERE answered")) == set(self.told)
        counted = {(r.rater, r.pair): r.ballot for r in rows if r.counted}
        pairs = dict(
            db.execute("SELECT place.id, name FROM place JOIN pair ON pair.id = place.pair")
        )
        assert counted == {(f"rater {r}", pairs[p]): given for (r, p), given in self.told.items()}

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)

DRAWING = """
import sys
from dwindle.study.store import Store
from tests.study import study_kit
with Store(study_kit.Path(sys.argv[1])) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for rater in map(int, sys.argv[2:]):
        while True:
            with store.transaction():
                place = store.draw(rater)
                if place is None:
                    break
            print(rater, place, flush=True)
            with store.transaction():
                assert store.save(rater, place, study_kit.BALLOT)
"""


def test_processes_that_draw_at_once_never_share_a_place(tmp_path):
    """Three processes, nine raters, 40 pairs for 3 raters: 120 places, each given once."""
    folder = study_kit.make(tmp_path / "study", items=40, raters=3, links=9)
    runs = [study_kit.process(DRAWING, folder, *range(k, 10, 3)) for k in (1, 2, 3)]
    for run in runs:
        assert run.stdout.readline() == "ready\n"
    for run in runs:
        run.stdin.write("go\n")
        run.stdin.flush()
    given = [line for run in runs for line in run.communicate(timeout=60)[0].splitlines()]
    assert all(run.returncode == 0 for run in runs)
    assert len({line.split()[0] for line in given}) >= 3
    assert len(given) == len({line.split()[1] for line in given}) == 120
    with Store(folder) as s:
        assert len(s.rows()) == 120
        assert max(s._db.execute("SELECT count(*) FROM ballot GROUP BY pair"))[0] == 3


def test_a_folder_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(Store, "invite", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        study_kit.make(tmp_path / "study")
    assert list(tmp_path.iterdir()) == []


def test_refuses_a_folder_in_use_and_too_few_links(folder, tmp_path):
    with pytest.raises(ValueError, match="is there already"):
        study_kit.make(folder)
    with pytest.raises(ValueError, match="need as many links"):
        study_kit.make(tmp_path / "new", raters=3, links=2)
    with pytest.raises(ValueError, match="above 0"):
        study_kit.make(tmp_path / "new", lease=float("nan"))
    assert not (tmp_path / "new").exists()


def test_new_links_do_not_touch_the_old(folder):
    before = study_kit.tokens(folder)
    study_kit.change(folder, lambda s: s.invite(2))
    after = study_kit.tokens(folder)
    assert after[:3] == before
    assert len(set(after)) == 5
    with Store(folder) as s:
        assert [s.rater(token) for token in after] == [1, 2, 3, 4, 5]


# What goes wrong is one sentence that says what to do.


def test_no_study(tmp_path):
    with pytest.raises(ValueError, match="has no study: make one with 'dwindle study new"):
        Store(tmp_path)


def test_a_full_disk_keeps_what_was_acknowledged(folder):
    with Store(folder) as s:
        with s.transaction():
            s.save(1, s.draw(1), BALLOT)
        pages = s._db.execute("PRAGMA page_count").fetchone()[0]
        s._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(Trouble, match="is full: free some space"), s.transaction():
            s.save(1, s.draw(1), ballot("tie", "tie", "no", "no", "long " * 3000))
        assert [r.ballot for r in s.rows()] == [BALLOT]
        s._db.execute("PRAGMA max_page_count = 100000")
        with s.transaction():
            assert s.save(1, s.draw(1), BALLOT)


@pytest.mark.parametrize("damage", ["text", "hole", "version"])
def test_a_damaged_database(folder, damage):
    path = folder / store.DATABASE
    if damage == "text":
        path.write_text("this is no database, but long enough to look at " * 200)
    elif damage == "hole":
        content = bytearray(path.read_bytes())
        content[4096 : 3 * 4096] = os.urandom(2 * 4096)
        path.write_bytes(content)
    else:
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA user_version = 7")
    with pytest.raises(
        Trouble, match="has layout 7" if damage == "version" else "is damaged .*: put back a copy"
    ) as e:
        Store(folder)
    assert "\n" not in str(e.value)


def test_a_locked_database(folder, monkeypatch):
    with Store(folder) as one, Store(folder) as two, one.transaction():
        two._db.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(Trouble, match="locked by another program"), two.transaction():
            pass


# The writer.


def test_a_job_is_acknowledged_only_when_it_is_in_the_files(folder, tmp_path):
    """What lies on the disk at the moment of the answer is copied, and the ballot must be in the
    copy."""
    writer = Writer(folder)
    try:
        assert writer.submit(lambda s: s.save(1, s.draw(1), BALLOT)).result(10)
        shutil.copytree(folder, tmp_path / "copy")
    finally:
        writer.close()
    with Store(tmp_path / "copy") as s:
        assert len(s.rows()) == 1


def test_jobs_that_wait_share_a_transaction_and_a_bad_one_spoils_none(folder, monkeypatch):
    transactions = []
    whole = Store.transaction
    monkeypatch.setattr(Store, "transaction", lambda self: transactions.append(1) or whole(self))
    writer = Writer(folder)
    try:
        begun, hold = threading.Event(), threading.Event()
        first = writer.submit(lambda s: begun.set() or hold.wait(5))
        begun.wait(5)
        good = [writer.submit(lambda s, r=r: s.save(r, s.draw(r), BALLOT)) for r in (1, 2)]
        hold.set()
        assert [first.result(10), *(job.result(10) for job in good)] == [True] * 3
        assert len(transactions) == 2
        begun.clear()
        hold.clear()
        first = writer.submit(lambda s: begun.set() or hold.wait(5))
        begun.wait(5)
        mixed = [
            writer.submit(lambda s: s.draw(3)),
            writer.submit(lambda s: 1 / 0),
            writer.submit(lambda s: s.draw(1)),
        ]
        hold.set()
        assert mixed[0].result(10)
        assert mixed[2].result(10)
        with pytest.raises(ZeroDivisionError):
            mixed[1].result(10)
    finally:
        writer.close()
    with Store(folder) as s:
        assert len(s.rows()) == 2
        assert s.counts()["held"] == 2


def test_a_writer_without_a_study_says_so_to_every_job(tmp_path):
    writer = Writer(tmp_path)
    with pytest.raises(ValueError, match="has no study"):
        writer.submit(lambda s: s.draw(1)).result(10)
    writer.close()
