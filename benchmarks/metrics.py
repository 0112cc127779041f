"""How fast the metrics are. Run: python benchmarks/metrics.py [OUTPUTS.jsonl]

Without a file it makes its own: 11,490 items with sources of 780 words, references of 55 and
outputs of 80 words, drawn from a vocabulary with the frequencies of a language. Prints the table of
benchmarks/metrics.md. The comparison with rouge-score needs `pip install rouge-score`.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dwindle.metrics import catalogue, rouge
from dwindle.metrics.cider import CiderScorer
from dwindle.metrics.score import reduce
from dwindle.metrics.significance import intervals
from dwindle.runfiles import outputs

ITEMS, SOURCE, REFERENCE, OUTPUT, SENTENCE = 11_490, 780, 55, 80, 20
METRICS = ["rouge", "repetition", "novelty", "layout"]


def make(path: Path, items: int) -> None:
    """Outputs that copy spans of their sources, references that copy fewer, words with Zipf's
    frequencies."""
    rng = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlcumwfgypbvk"))
    vocabulary = ["".join(rng.choice(letters, rng.integers(2, 10))) for _ in range(30_000)]
    weights = 1 / np.arange(1, len(vocabulary) + 1)
    stream = [
        vocabulary[i] for i in rng.choice(len(vocabulary), 2_000_000, p=weights / weights.sum())
    ]

    def fresh(length: int) -> list[str]:
        start = int(rng.integers(len(stream) - length))
        return stream[start : start + length]

    def drawn(source: list[str], length: int, copied: float) -> str:
        words: list[str] = []
        while len(words) < length:
            start = int(rng.integers(len(source)))
            words += source[start : start + 12] if rng.random() < copied else fresh(5)
        return lines(words[:length])

    def lines(words: list[str]) -> str:
        return "\n".join(" ".join(words[i : i + SENTENCE]) for i in range(0, len(words), SENTENCE))

    with path.open("w", encoding="utf-8") as file:
        for i in range(items):
            source = fresh(SOURCE)
            record = {
                "id": str(i),
                "source": lines(source),
                "reference": drawn(source, REFERENCE, 0.3),
                "hypothesis": drawn(source, OUTPUT, 0.9),
            }
            file.write(json.dumps(record) + "\n")


def timed(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of this one process; other work on the machine does not count, unless the clock is
    that of the wall."""
    start = clock()
    work()
    return clock() - start


def whole(path: Path, workers: int) -> None:
    """Read, reduce and resample: what `dwindle score` does."""
    metrics = catalogue.find(METRICS)
    intervals(reduce(outputs.read(path), metrics, workers), metrics, 1000, 1)


def rewards(system: outputs.Outputs) -> float:
    """CIDEr-D rewards a second, references seen before, as in the second epoch of a training."""
    items = system.items[:4000]
    scorer = CiderScorer([item.references for item in items])
    texts, references = [item.hypothesis for item in items], [item.references for item in items]
    scorer.rewards(texts, references)
    return len(items) / timed(lambda: scorer.rewards(texts, references))


def rouge_score(system: outputs.Outputs) -> float | None:
    """Seconds that the package rouge-score needs for the first 1,000 items."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ModuleNotFoundError:
        return None
    scorer = RougeScorer(["rouge1", "rouge2", "rougeLsum"], use_stemmer=True)
    return timed(lambda: [scorer.score(i.references[0], i.hypothesis) for i in system.items[:1000]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("file", nargs="?", type=Path, help="an outputs.jsonl; without, one is made")
    parser.add_argument("--items", type=int, default=ITEMS, help="items to make")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.file or Path(folder) / "outputs.jsonl"
        if not arguments.file:
            make(path, arguments.items)
        system = outputs.read(path)
        some = outputs.outputs("some", system.items[:1000])
        print("| what | measured |\n|---|---|")
        print(f"| items | {len(system):,} |")
        seconds = timed(lambda: whole(path, arguments.workers), time.perf_counter)
        what = f"{', '.join(METRICS)}; 1,000 resamples; {arguments.workers} processes"
        print(f"| {what} | {seconds:.1f} s of the wall |")
        half = outputs.outputs("half", system.items[: len(system) // 2])
        ours = timed(lambda: reduce(system, rouge.metrics()))
        print(f"| ROUGE alone, one process | {ours:.2f} s |")
        print(
            "| the same on half of the items | "
            f"{timed(lambda: reduce(half, rouge.metrics())):.2f} s |"
        )
        theirs, mine = rouge_score(some), timed(lambda: reduce(some, rouge.metrics()))
        if theirs is not None:
            ratio = f"{theirs:.2f} s / {mine:.3f} s = {theirs / mine:.1f}"
            print(f"| ROUGE, 1,000 items: rouge-score / this | {ratio} |")
        print(f"| CIDEr-D rewards, one process | {rewards(system):,.0f} a second |")
    own, children = (
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(
        f"| peak memory: this process / largest worker | {own / 1024:.0f} MB / "
        f"{children / 1024:.0f} MB |"
    )
    print(f"\nPython {sys.version.split()[0]}, numpy {np.__version__}")


if __name__ == "__main__":
    main()
