"""Items that one process audits, scores or writes, beside those of a worker of a Ray cluster on
this machine, as a ratio.

    python benchmarks/workers.py omissions MODEL SOURCES OUTPUTS [--items 512] [--workers 1]
    python benchmarks/workers.py score ENCODER OUTPUTS REFERENCES
    python benchmarks/workers.py generate MODEL SOURCES

Scores are MoverScore's. ENCODER or MODEL may be ``random``: a BERT or BART of random weights, 6
layers of 256 numbers. Line-aligned texts may be ``.gz``.

In turns, each in a process of its own, with the one process a second time as a control: what its
two measurements differ by is the noise of the machine. What is measured lies between the first
shard and the last but one, so that loading and starting are left out: CPU seconds of whoever runs
the model, and seconds on the clock, which mean something only on a machine that does nothing else.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import psutil

import dwindle
from dwindle.auditing import bulk
from dwindle.auditing.listeners import Listeners
from dwindle.auditing.text import TextReader
from dwindle.bulk import cluster
from dwindle.bulk.shards import Engine, alone
from dwindle.generation import bulk as writing
from dwindle.metrics import catalogue, score
from dwindle.metrics.spread import OnCluster
from dwindle.runfiles import outputs, text_lines
from dwindle.runfiles.run import Run

COLUMNS = {
    "omissions": ("source", "hypothesis"),
    "score": ("hypothesis", "reference"),
    "generate": ("source",),
}
Tell = Callable[[int], None]
"""Called with the number of items that are done."""


def written(asked: argparse.Namespace, folder: Path) -> None:
    """The items as JSONL, and what the work needs beside them."""
    texts = [islice(text_lines.texts(path), asked.items) for path in asked.texts]
    records = (
        {"id": n} | dict(zip(COLUMNS[asked.work], each, strict=True))
        for n, each in enumerate(zip(*texts, strict=True))
    )
    (folder / "items.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    if asked.model == "random":
        random(asked.work, asked.texts, folder / "random")
    if asked.work == "omissions":
        listeners(asked, folder)


def model_of(asked: argparse.Namespace, folder: Path) -> str:
    return str(folder / "random") if asked.model == "random" else asked.model


def random(work: str, texts: list[Path], folder: Path) -> None:
    """A model of random weights, with a vocabulary of these texts."""
    import torch
    import transformers

    from dwindle.models.subword import trained

    lines = [line for path in texts for line in islice(text_lines.texts(path), 2000)]
    tokenizer = trained(lines, 4000, "bart")
    tokenizer.model_max_length = 256
    torch.manual_seed(1)
    if work == "score":
        config = transformers.BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=256,
            num_hidden_layers=6,
            num_attention_heads=4,
            intermediate_size=1024,
            max_position_embeddings=256,
        )
        transformers.BertModel(config).save_pretrained(folder)
    else:
        sizes = {"d_model": 256, "max_position_embeddings": 256}
        for side in ("encoder", "decoder"):
            sizes |= {
                f"{side}_layers": 6,
                f"{side}_attention_heads": 4,
                f"{side}_ffn_dim": 1024,
            }
        config = transformers.BartConfig(
            vocab_size=len(tokenizer),
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.eos_token_id,
            forced_eos_token_id=None,
            **sizes,
        )
        transformers.BartForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def listeners(asked: argparse.Namespace, folder: Path) -> None:
    """Listeners of two heads."""
    import transformers

    name = model_of(asked, folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    heads = tuple(
        (int(layer), int(head))
        for layer, head in (one.split(".") for one in asked.heads.split(","))
    )
    probe = tuple(TextReader(model, tokenizer).probe())
    Listeners(heads, {"": 1.0}, 9.0, 9.0, 0.05, "characters", {}, True, probe, {}).save(
        folder / "listeners.json"
    )


def audited(asked: argparse.Namespace, folder: Path, engine: Engine, tell: Tell) -> int:
    run = Run(folder / "items.jsonl")
    auditor = dwindle.Auditor(model_of(asked, folder), folder / "listeners.json", batch=asked.batch)
    shards = bulk.shards([(run, folder / "out.jsonl", bulk.checked(run))], auditor)
    bulk.audit(shards, engine, lambda stage, done, total: tell(done))
    return auditor.block


def scored(asked: argparse.Namespace, folder: Path, engine: Engine, tell: Tell) -> int:
    system = outputs.read(folder / "items.jsonl")
    metrics = catalogue.find([f"mover:{model_of(asked, folder)}"])
    done = 0

    def advance(items: int) -> None:
        nonlocal done
        done += items
        tell(done)

    spread = OnCluster(engine, folder) if asked.workers else None  # else as without --ray
    score.reduce(system, metrics, progress=advance, spread=spread)
    return score.BLOCK


def generated(asked: argparse.Namespace, folder: Path, engine: Engine, tell: Tell) -> int:
    settings = {"beams": 2, "max_length": 24, "min_length": 23, "batch_size": asked.batch}
    scribe = writing.Scribe(model_of(asked, folder), settings)
    (folder / "out").mkdir()
    writing.write(
        [folder / "items.jsonl"],
        folder / "out",
        scribe,
        engine,
        lambda stage, done, total: tell(done),
    )
    return scribe.block


WORK = {"omissions": audited, "score": scored, "generate": generated}


def measured(asked: argparse.Namespace, folder: Path) -> None:
    """In a child: work, and print the items, CPU seconds and seconds between two shards."""
    told: list[tuple[int, float, float]] = []

    def tell(done: int) -> None:
        if done and (not told or done > told[-1][0]):
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
    engine = cluster.engine("local") if asked.workers else alone
    block = WORK[asked.work](asked, folder, engine, tell)
    ends = [one for one in told if one[0] % block == 0]
    (first, cpu, began), (last, cpu_after, ended) = ends[max(0, asked.workers - 1)], ends[-2]
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
    parser.add_argument("work", choices=list(COLUMNS))
    parser.add_argument("model")
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--items", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4, help="16 times as many are a shard")
    parser.add_argument("--heads", default="2.7,1.5", help="layer.head, by commas")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if len(asked.texts) != len(COLUMNS[asked.work]):
        parser.error(f"{asked.work} takes files of {' and '.join(COLUMNS[asked.work])}")
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
            items, cpu, clock = found[-1]
            print(
                f"{who}: {items / cpu:.2f} items a CPU second, {items / clock:.2f} a second",
                flush=True,
            )
    for what, place, share in (("a CPU second", 1, 1), ("a second and worker", 2, asked.workers)):
        rates = {who: [one[0] / one[place] for one in found] for who, found in told.items()}
        rates[spread] = [rate / share for rate in rates[spread]]
        for who in (spread, "control"):
            ratios = [a / b for a, b in zip(rates[who], rates["one process"], strict=True)]
            print(
                f"{what}: {who} {statistics.median(rates[who]):.2f} items, one process "
                f"{statistics.median(rates['one process']):.2f}; ratio "
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            )


if __name__ == "__main__":
    main()
