"""Shards on the workers of a Ray cluster: an ``Engine``.

Ray Data hands out the shards, one model a worker, and hands out again what a lost worker was doing.
Files are read and written where they lie, so every machine must see the same folders; of a shard
its number travels, and its parcel. Knows nothing of what is computed.
"""

import logging
import os
import pickle
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dwindle.bulk.shards import Advance, Engine, Shards

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
    # else a thread that Ray Data leaves behind may connect again, or start a cluster of its own
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    try:
        import ray.data  # noqa: F401
    except ModuleNotFoundError as error:
        raise ValueError(f"a cluster needs {error.name}: type pip install 'dwindle[ray]'") from None

    def spread(todo: Sequence[tuple[Shards, int]], advance: Advance) -> Iterator[Shards]:
        if todo:
            with connected(address):
                yield from _spread(todo, advance)

    return spread


@contextmanager
def connected(address: str) -> Iterator[None]:
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


def _spread(todo: Sequence[tuple[Shards, int]], advance: Advance) -> Iterator[Shards]:
    from ray import data

    work = list({id(one): one for one, _ in todo}.values())
    wanted: dict[int, set[int]] = {id(one): set() for one in work}
    for one, number in todo:
        wanted[id(one)].add(number)
    rows = [
        {"work": k, "shard": number, "parcel": pickle.dumps(parcel)}
        for k, one in enumerate(work)
        for number, parcel in enumerate(one.parcels())
        if number in wanted[id(one)]
    ]
    context = data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    done = data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        _Worker,
        batch_size=1,
        fn_constructor_kwargs={"work": work, "folder": str(Path.cwd())},
        **_workers(len(rows), any(one.models for one in work)),
    )
    for row in done.iter_rows():
        if row["wrong"]:
            raise ValueError(row["wrong"])
        one = work[row["work"]]
        advance(one.length(row["shard"]))
        yield one


class _Worker:
    """One model, which a worker opens once and makes shards with."""

    def __init__(self, work: Sequence[Shards], folder: str) -> None:
        self._work, self._folder = work, folder

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        """The rows, once the files of their shards are written, or with the sentence why they are
        not."""
        wrong = list(map(self._wrong, rows["work"], rows["shard"], rows["parcel"]))
        return {"work": rows["work"], "shard": rows["shard"], "wrong": wrong}

    def _wrong(self, place: int, number: int, parcel: bytes) -> str:
        try:
            os.chdir(self._folder)  # names of files may be relative to it
        except OSError:
            return (
                f"a worker on {os.uname().nodename} has no folder {self._folder}: let all "
                "machines share it"
            )
        try:
            self._work[int(place)].make(int(number), pickle.loads(parcel), lambda items: None)
        except ValueError as error:  # Ray would wrap these
            return str(error)
        except OSError as error:
            return f"a worker on {os.uname().nodename} stopped: {error}"
        return ""


def _workers(most: int, models: bool) -> dict[str, Any]:
    """Number of workers: that of the GPUs if models run on them, else that of the CPUs, but at most
    that of the shards."""
    import ray
    from ray.data import ActorPoolStrategy

    kind = "GPU" if models and ray.cluster_resources().get("GPU", 0) >= 1 else "CPU"
    count = max(1, min(most, int(ray.cluster_resources().get(kind, 1))))
    pool = ActorPoolStrategy(size=count, max_tasks_in_flight_per_actor=AHEAD)
    return {"compute": pool, "num_gpus" if kind == "GPU" else "num_cpus": 1}
