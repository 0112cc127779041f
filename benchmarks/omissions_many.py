"""Memory over many pairs, and going on after a kill, through a tiny random translator.

    python benchmarks/omissions_many.py OUT [--pairs 10000]

A child process audits a tenth of the pairs, another all of them: prints the most memory each took.
A third is killed in the middle and started again: says from where it went on, and whether its file
is the one that was not interrupted.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from transformers import T5Config, T5ForConditionalGeneration

import dwindle
from dwindle.auditing import bulk
from dwindle.auditing.listeners import Listeners
from dwindle.auditing.text import TextReader
from dwindle.bulk.shards import alone
from dwindle.models.subword import trained
from dwindle.runfiles.run import Run

WORDS = [
    "mayor",
    "bridge",
    "ferry",
    "ship",
    "child",
    "school",
    "river",
    "storm",
    "train",
    "market",
    "letter",
    "garden",
]


def written(folder: Path, count: int) -> Path:
    """Pairs of which every seventh leaves half of its source out."""
    path, rng = folder / f"{count}.jsonl", random.Random(count)
    with path.open("w") as file:
        for n in range(count):
            words = rng.choices(WORDS, k=rng.randint(4, 24))
            output = words if n % 7 else words[::2]
            file.write(
                json.dumps({"id": n, "source": " ".join(words), "hypothesis": " ".join(output)})
                + "\n"
            )
    return path


def audit(path: Path, out: Path) -> None:
    """What the child does."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokenizer = trained([" ".join(WORDS)], 320, "transformer")
    sizes = {"d_model": 32, "d_kv": 16, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    special = {
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": tokenizer.eos_token_id,
    }
    model = T5ForConditionalGeneration(
        T5Config(vocab_size=len(tokenizer), **sizes, **special)
    ).eval()
    probe = tuple(TextReader(model, tokenizer).probe())
    ears = Listeners(((0, 0), (1, 1)), {"": 2.0}, 1.0, 1.0, 0.05, "characters", {}, True, probe, {})
    auditor, run = dwindle.Auditor(model, ears, tokenizer, brief=False), Run(path)
    summary = bulk.audit(bulk.shards([(run, out, bulk.checked(run))], auditor), alone)
    print(
        json.dumps(
            {
                "resumed": summary.resumed,
                "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )
    )


def started(path: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, str(path), "--child", str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finished(child: subprocess.Popen[str]) -> dict[str, int]:
    told, _ = child.communicate()
    return json.loads(told)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        audit(asked.out, asked.child)
        return
    asked.out.mkdir(parents=True, exist_ok=True)
    for count in (asked.pairs // 10, asked.pairs):
        path, whole = written(asked.out, count), asked.out / f"{count}.whole"
        print(f"{count} pairs: {finished(started(path, whole))['MB']} MB at most", flush=True)
    again = asked.out / f"{asked.pairs}.again"
    child = started(path, again)
    while len(list(asked.out.glob(f".{again.name}.*/*"))) < asked.pairs // 256 // 3:
        time.sleep(0.2)
    child.kill()
    child.wait()
    resumed = finished(started(path, again))["resumed"]
    same = again.read_bytes() == whole.read_bytes()
    print(
        f"killed and started again: went on from {resumed}; the file is "
        f"{'the same' if same else 'ANOTHER'}"
    )


if __name__ == "__main__":
    main()
