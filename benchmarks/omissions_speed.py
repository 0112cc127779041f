"""How long an audit takes, beside another version of dwindle, in one run and by turns.

    python benchmarks/omissions_speed.py MODEL SOURCES OUTPUTS --against OTHER/src

Each turn is a process of its own that audits the same pairs with both versions' listeners for the
same heads, without a second opinion, and says its CPU time without loading. Prints the median of
the ratios. A control sets this version beside itself.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

CHILD = """
import gzip, sys, time, torch
from pathlib import Path
torch.set_num_threads(1)
import dwindle, transformers
from dwindle.auditing.listeners import Listeners
from dwindle.auditing.readers import reader_of
model = transformers.AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1]).eval()
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
def lines(name):
    content = Path(name).read_bytes()
    return (gzip.decompress(content) if name.endswith(".gz") else content).decode().split("\\n")
pairs = list(zip(lines(sys.argv[2]), lines(sys.argv[3])))[: int(sys.argv[4])]
heads = tuple(tuple(map(int, head.split("."))) for head in sys.argv[5].split(","))
probe = tuple(reader_of(model, tokenizer).probe())
ears = Listeners(heads, {"": 1.0}, 9.0, 9.0, 0.05, "characters", {}, True, probe, {})
for _ in dwindle.omissions(model, tokenizer, pairs[:32], ears): pass
began = time.process_time()
count = sum(1 for _ in dwindle.omissions(model, tokenizer, pairs, ears))
print(count, time.process_time() - began)
"""


def seconds(source: Path, asked: argparse.Namespace) -> float:
    """CPU seconds of one audit by the version whose sources these are."""
    given = [asked.model, asked.sources, asked.outputs, str(asked.items), asked.heads]
    environment = os.environ | {
        "PYTHONPATH": f"{source}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    }
    environment["OMP_NUM_THREADS"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *given],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("model", "sources", "outputs"):
        parser.add_argument(name)
    parser.add_argument("--against", type=Path, required=True)
    parser.add_argument("--items", type=int, default=256)
    parser.add_argument("--heads", default="2.7,1.5", help="layer.head, by commas")
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    ours = Path(__file__).parents[1] / "src"
    told = [
        [seconds(where, asked) for where in (asked.against, ours, ours)] for _ in range(asked.turns)
    ]
    for before, now, again in told:
        print(f"other {before:.1f} s, this {now:.1f} s, this again {again:.1f} s")
    print(
        f"{statistics.median(before / now for before, now, _ in told):.2f} times as fast as the "
        "other"
    )
    print(f"control {statistics.median(again / now for _, now, again in told):.2f}")
    print(
        f"{statistics.median(60 * asked.items / now for _, now, _ in told):.0f} pairs a CPU minute"
    )


if __name__ == "__main__":
    main()
