"""Shards of an audit on the workers of a Ray cluster: an ``Engine`` for `bulk.audit`.

Ray Data hands out the shards, one model a worker, and hands out again what a lost worker was doing.
Files are read and written where they lie, so every machine must see the same folders; only the
numbers of shards travel. Knows nothing of what is found.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from dwindle.auditing.bulk import Engine, Shards

LOCAL = "local"
"""In place of an address: a cluster that is started on this machine, and stopped at the end."""
PATIENCE = 10.0
"""Number of seconds within which a cluster must answer."""
AHEAD = 2
"""Number of shards that a worker is given at a time, so that it need not wait for the next."""


def engine(address: str) -> Engine:
    """The engine on the cluster at ``address``, such as ``10.0.0.1:6379``, or here (``LOCAL``)."""
    if address not in (LOCAL, "auto") and ":" not in address:
        raise ValueError(
            f"{address} is not the address of a Ray cluster: type --ray 10.0.0.1:6379, or --ray "
            "alone, behind the files"
        )
    try:
        import ray.data  # noqa: F401
    except ModuleNotFoundError as error:
        raise ValueError(
            f"a cluster needs {error.name}: type pip install 'dwindle[omissions,ray]'"
        ) from None

    def spread(
        todo: Sequence[tuple[Shards, int]], advance: Callable[[int], None]
    ) -> Iterator[Shards]:
        if todo:
            with _connected(address):
                yield from _spread(todo, advance)

    return spread


@contextmanager
def _connected(address: str) -> Iterator[None]:
    """Connected to the cluster; a connection that was there before is used, and stays."""
    import ray

    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report usage over the network
    # else workers of a cluster here give way to all other work
    os.environ.setdefault("RAY_worker_niceness", "0")
    own = {"include_dashboard": False} if address == LOCAL else {}
    try:
        if ":" in address:  # Ray itself asks again and again, for many minutes
            host, _, port = address.rpartition("/")[2].rpartition(":")
            socket.create_connection((host, int(port)), PATIENCE).close()
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **own)
    except (OSError, ValueError) as error:
        why = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"there is no Ray cluster at {address} ({why}): check the address"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _spread(todo: Sequence[tuple[Shards, int]], advance: Callable[[int], None]) -> Iterator[Shards]:
    from ray import data

    files = list({id(file): file for file, _ in todo}.values())
    starts = {id(file): list(islice(file.run.starts(file.size), file.count)) for file in files}
    numbers = {id(file): n for n, file in enumerate(files)}
    rows = [
        {"file": numbers[id(file)], "shard": n, "at": list(starts[id(file)][n])} for file, n in todo
    ]
    context = data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    done = data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        _Worker,
        batch_size=1,
        fn_constructor_kwargs={"files": files, "folder": str(Path.cwd())},
        **_workers(len(rows)),
    )
    for row in done.iter_rows():
        if row["wrong"]:
            raise ValueError(row["wrong"])
        file = files[row["file"]]
        advance(file.length(row["shard"]))
        yield file


class _Worker:
    """One model, which a worker opens once and audits shards with."""

    def __init__(self, files: Sequence[Shards], folder: str) -> None:
        self._files, self._folder = files, folder

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        """The same rows, once their findings are written, or with the sentence why they are not."""
        return rows | {"wrong": list(map(self._wrong, rows["file"], rows["shard"], rows["at"]))}

    def _wrong(self, number: int, shard: int, at: Sequence[int]) -> str:
        file = self._files[int(number)]
        try:
            os.chdir(self._folder)  # names of files may be relative to it
        except OSError:
            return (
                f"a worker on {os.uname().nodename} has no folder {self._folder}: let all "
                "machines share it"
            )
        try:
            file.write(
                int(shard), file.auditor.records(file.items(int(shard), [int(one) for one in at]))
            )
        except ValueError as error:  # Ray would wrap it
            return str(error)
        return ""


def _workers(most: int) -> dict[str, Any]:
    """Number of workers: that of the GPUs, or of the CPUs without any, but at most that of the
    shards."""
    import ray
    from ray.data import ActorPoolStrategy

    kind = "GPU" if ray.cluster_resources().get("GPU", 0) >= 1 else "CPU"
    count = max(1, min(most, int(ray.cluster_resources().get(kind, 1))))
    pool = ActorPoolStrategy(size=count, max_tasks_in_flight_per_actor=AHEAD)
    return {"compute": pool, "num_gpus" if kind == "GPU" else "num_cpus": 1}
