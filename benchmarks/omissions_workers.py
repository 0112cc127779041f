"""Pairs audited by one process, beside those by a worker of a Ray cluster on this machine, as a
ratio.

    python benchmarks/omissions_workers.py MODEL SOURCES OUTPUTS [--pairs 512] [--workers 1]

In turns, each in a process of its own, with the one process a second time as a control: what its
two measurements differ by is the noise of the machine. What is measured lies between the first
shard and the last but one, so that loading and starting are left out: CPU seconds of whoever runs
the model, and seconds on the clock, which mean something only on a machine that does nothing else.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

import dwindle
from dwindle.auditing import bulk, cluster
from dwindle.auditing.listeners import Listeners
from dwindle.auditing.text import TextReader
from dwindle.runfiles.run import Run


def written(asked: argparse.Namespace, folder: Path) -> None:
    """The pairs as JSONL, and listeners of two heads."""
    import transformers

    def lines(path: Path) -> list[str]:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode().split("\n")

    pairs = list(zip(lines(asked.sources), lines(asked.outputs), strict=True))[: asked.pairs]
    records = (
        {"id": n, "source": source, "hypothesis": output}
        for n, (source, output) in enumerate(pairs)
    )
    (folder / "pairs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(asked.model)
    probe = tuple(
        TextReader(model, transformers.AutoTokenizer.from_pretrained(asked.model)).probe()
    )
    heads = tuple(
        (int(layer), int(head))
        for layer, head in (one.split(".") for one in asked.heads.split(","))
    )
    Listeners(heads, {"": 1.0}, 9.0, 9.0, 0.05, "characters", {}, True, probe, {}).save(
        folder / "listeners.json"
    )


def measured(asked: argparse.Namespace, folder: Path) -> None:
    """In a child: audit, and print the pairs, CPU seconds and seconds between two shards."""
    run = Run(folder / "pairs.jsonl")
    auditor = dwindle.Auditor(asked.model, folder / "listeners.json", batch=asked.batch)
    total = bulk.checked(run)
    shards = bulk.shards([(run, folder / f"{asked.workers}.jsonl", total)], auditor)
    told: list[tuple[int, float, float]] = []

    def tell(stage: str, done: int, total: int) -> None:
        if done and (asked.workers or done % auditor.block == 0):
            told.append((done, _cpu(bool(asked.workers)), time.perf_counter()))

    if asked.workers:
        import ray

        ray.init(
            "local",
            num_cpus=asked.workers,
            include_dashboard=False,
            logging_level="ERROR",
            log_to_driver=False,
        )
    bulk.audit(shards, cluster.engine("local") if asked.workers else bulk.alone, tell)
    (first, cpu, began), (last, cpu_after, ended) = told[max(1, asked.workers)], told[-2]
    print(json.dumps([last - first, cpu_after - cpu, ended - began]))


def _cpu(workers: bool) -> float:
    """CPU seconds of this process, or of all workers of the cluster."""
    if not workers:
        return time.process_time()
    here = psutil.Process().children(recursive=True)
    busy = [one for one in here if "MapWorker" in (one.cmdline() or [""])[0]]
    return sum(one.cpu_times().user + one.cpu_times().system for one in busy)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("sources", type=Path)
    parser.add_argument("outputs", type=Path)
    parser.add_argument("--pairs", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4, help="16 times as many are a shard")
    parser.add_argument("--heads", default="2.7,1.5", help="layer.head, by commas")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        measured(asked, asked.child)
        return
    spread = f"{asked.workers} workers"
    kinds = {"one process": 0, spread: asked.workers, "control": 0}
    told: dict[str, list[list[float]]] = {who: [] for who in kinds}
    for turn in range(asked.turns):
        # the order turns too, so that nobody always runs first
        for who in [*list(kinds)[turn % 3 :], *list(kinds)[: turn % 3]]:
            workers, found = kinds[who], told[who]
            with tempfile.TemporaryDirectory() as place:
                written(asked, Path(place))
                command = [sys.executable, *sys.argv, "--child", place, "--workers", str(workers)]
                environment = os.environ | {
                    "OMP_NUM_THREADS": "1",
                    "RAY_USAGE_STATS_ENABLED": "0",
                    "RAY_worker_niceness": "0",
                }
                done = subprocess.run(
                    command, check=True, stdout=subprocess.PIPE, text=True, env=environment
                )
            found.append(json.loads(done.stdout.splitlines()[-1]))
            pairs, cpu, clock = found[-1]
            print(
                f"{who}: {pairs / cpu:.2f} pairs a CPU second, {pairs / clock:.2f} a second",
                flush=True,
            )
    for what, place, share in (("a CPU second", 1, 1), ("a second and worker", 2, asked.workers)):
        rates = {who: [one[0] / one[place] for one in found] for who, found in told.items()}
        rates[spread] = [rate / share for rate in rates[spread]]
        for who in (spread, "control"):
            ratios = [a / b for a, b in zip(rates[who], rates["one process"], strict=True)]
            print(
                f"{what}: {who} {statistics.median(rates[who]):.2f} pairs, one process "
                f"{statistics.median(rates['one process']):.2f}; ratio "
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            )


if __name__ == "__main__":
    main()
