"""SQLite as a study uses it: a commit is on the disk when it returns, and an error reads as one
sentence that says what to do. Knows no table.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

VERSION = 2  # of the tables; kept in the file


class Trouble(ValueError):
    """The database cannot take or give what was asked. The message says what to do."""


def connect(path: Path) -> sqlite3.Connection:
    """Open a database so that a commit is on the disk when it returns."""
    with sentences(path):
        db = sqlite3.connect(path, timeout=30, isolation_level=None)
        try:
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                db.execute(f"PRAGMA {pragma}")
        except BaseException:
            db.close()
            raise
        return db


def check(db: sqlite3.Connection, path: Path) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        raise Trouble(
            f"{path} has layout {version} and this dwindle reads {VERSION}: "
            "use the dwindle that made it, or make the study anew"
        )
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)


@contextlib.contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Errors of SQLite as one sentence that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise Trouble(_sentence(path, error)) from error


def _sentence(path: Path, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary == sqlite3.SQLITE_FULL:
        return f"the disk of {path} is full: free some space; nothing that was acknowledged is lost"
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"{path} is locked by another program: close that program and try again"
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return (
            f"{path} cannot be written: check that you own the folder and that its disk is not "
            "read-only"
        )
    if primary == sqlite3.SQLITE_IOERR:
        return (
            f"the disk of {path} fails or is full ({error}): check it, free some space and try "
            "again"
        )
    what = " ".join(str(error).split())
    return (
        f"{path} is damaged ({what}): put back a copy of the folder, "
        f'or save what can be read with "sqlite3 {path} .recover"'
    )
