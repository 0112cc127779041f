"""An audit of outputs that is killed at any moment, and goes on: the same bytes as one that was
left alone."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from tests.auditing import small

AUDIT = """
import sys
from pathlib import Path
import torch
import dwindle
from dwindle.auditing import bulk
from dwindle.bulk.shards import alone
from dwindle.runfiles.run import Run
from tests.auditing import small
torch.set_num_threads(1)
tokenizer = small.tokenizer()
model = small.copier(len(tokenizer))
listeners = dwindle.listeners(model, tokenizer, small.TEXTS)
print("ready", flush=True)
auditor = dwindle.Auditor(model, listeners, tokenizer, batch=4, brief=False)
bulk.audit(bulk.shards([(Run(Path(sys.argv[1])), Path(sys.argv[2]), 1500)], auditor), alone)
"""


def trial(random: Random, folder: Path) -> int:
    outputs = folder / "outputs.jsonl"
    texts = [random.choice(small.TEXTS) for _ in range(1500)]
    lines = [{"id": str(n), "source": text, "hypothesis": text} for n, text in enumerate(texts)]
    outputs.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    needed = _audited(outputs, folder / "alone.jsonl")
    for _ in range(random.randint(1, 4)):
        _audited(outputs, folder / "killed.jsonl", random.uniform(0, 1) * needed)
    _audited(outputs, folder / "killed.jsonl")
    assert (folder / "killed.jsonl").read_bytes() == (folder / "alone.jsonl").read_bytes(), (
        "another result after kills"
    )
    return len(lines)


def _audited(outputs: Path, out: Path, until: float | None = None) -> float:
    """The seconds of an audit, or of its life."""
    process = subprocess.Popen(
        [sys.executable, "-c", AUDIT, str(outputs), str(out)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    start = time.monotonic()
    try:
        process.wait(until)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    process.stdout.close()
    assert until is not None or process.returncode == 0
    return time.monotonic() - start
