"""What is kept for all runs: made once, by one process, whole or not at all."""

import multiprocessing
from pathlib import Path

import pytest

from dwindle.system import cache
from dwindle.system.cache import home  # before the tests' own takes its place


def write(folder: Path) -> None:
    (folder / "x").write_text("made")


def test_a_folder_is_made_once_for_a_key(tmp_path):
    made = []

    def make(folder):
        made.append(folder)
        write(folder)

    one, again, other = (
        cache.kept("a", key, make, tmp_path) for key in ([1, "b"], [1, "b"], [2, "b"])
    )
    assert one == again != other
    assert (one / "x").read_text() == "made"
    assert len(made) == 2


def test_what_was_not_finished_is_made_again(tmp_path):
    def fail(folder):
        write(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.kept("a", 1, fail, tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]
    assert cache.kept("a", 1, write, tmp_path).is_dir()


def told(place: Path, counts: Path) -> None:
    def make(folder):
        with counts.open("a") as file:
            file.write("made\n")
        write(folder)

    cache.kept("a", 1, make, place)


def test_many_processes_make_it_once(tmp_path):
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=told, args=(tmp_path / "cache", tmp_path / "counts"))
        for _ in range(6)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (tmp_path / "counts").read_text() == "made\n"


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        OSError,
        match=r"cannot be written .*: free some space, or name another folder with XDG_CACHE_HOME",
    ):
        cache.kept("a", 1, write, tmp_path / "file")


def test_the_users_cache_is_where_the_variable_says(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert home() == tmp_path / "dwindle"
