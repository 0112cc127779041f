"""The one thread of a server that writes. Jobs that wait together share a transaction, so one wait
for the disk serves them all, and every one of them is answered only after it. Knows the store and
nothing of pages.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from dwindle.study.store import Store

Job = Callable[[Store], Any]
MOST = 256  # jobs a transaction: bounds how long the first of them waits


class Writer:
    """Start it, ``submit`` jobs from any thread, and ``close`` it: earlier jobs are still done."""

    def __init__(self, folder: Path) -> None:
        self._jobs: queue.SimpleQueue[tuple[Job, Future[Any]] | None] = queue.SimpleQueue()
        self._folder = folder
        self._thread = threading.Thread(target=self._run, name="dwindle-study-writer", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> "Future[Any]":
        """The future holds the job's result once it is on the disk, or why it is not."""
        future: Future[Any] = Future()
        self._jobs.put((job, future))
        return future

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        store: Store | None = None
        while batch := self._batch():
            try:
                store = store or Store(self._folder)
                _together(store, batch)
            except Exception as error:
                # One bad job must not spoil the others: nothing was kept, so each is done on its
                # own.
                for job, future in batch:
                    _fail(future, error) if store is None else _alone(store, job, future)
        if store:
            store.close()

    def _batch(self) -> list[tuple[Job, "Future[Any]"]]:
        """All jobs that wait, at least one; an empty list when the writer is to stop."""
        batch = []
        job = self._jobs.get()
        while job is not None:
            batch.append(job)
            if len(batch) == MOST:
                return batch
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return batch
        if batch:
            self._jobs.put(None)
        return batch


def _together(store: Store, batch: list[tuple[Job, "Future[Any]"]]) -> None:
    with store.transaction():
        results = [job(store) for job, _ in batch]
    for (_, future), result in zip(batch, results, strict=True):
        if future.set_running_or_notify_cancel():
            future.set_result(result)


def _alone(store: Store, job: Job, future: "Future[Any]") -> None:
    try:
        with store.transaction():
            result = job(store)
    except Exception as error:
        _fail(future, error)
    else:
        if future.set_running_or_notify_cancel():
            future.set_result(result)


def _fail(future: "Future[Any]", error: Exception) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(error)
