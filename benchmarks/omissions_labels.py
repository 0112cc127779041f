"""How omissions that people marked are told, and how often outputs are alarmed in which they found
no error.

    python benchmarks/omissions_labels.py MODEL RATINGS.tsv --engine FOLDER

RATINGS.tsv is a file of MQM ratings as Freitag et al. (2021) publish them: system, document,
segment, source and target with the error between <v> and </v>, category, severity. Outputs of many
systems; MODEL only reads them. An output is error-free if no rater found anything; a major omission
is one that any rater called so. Listeners are chosen as `dwindle omissions` does, on the sources of
the file and MODEL's own outputs of them. Intervals are 95 %, over outputs.
"""

import argparse
import csv
import random
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from omissions_pairs import bootstrapped, hasten, interval, load

import dwindle
from dwindle.auditing.calibration import conformal
from dwindle.auditing.roc import auroc

SOURCES, FREE = 200, 800


@dataclass
class Output:
    source: str
    text: str
    errors: int = 0
    gone: list[tuple[int, int, bool]] = field(default_factory=list)
    """Where the source is said to be left out, and whether that is major."""

    @property
    def is_major(self) -> bool:
        return any(major for *_, major in self.gone)


def rated(path: Path) -> list[Output]:
    csv.field_size_limit(2**30)
    found: dict[tuple[str, str, str], Output] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            key = (row["system"], row["doc"], row.get("docSegId") or row["seg_id"])
            plain = [re.sub("</?v>", "", row[side]) for side in ("source", "target")]
            one = found.setdefault(key, Output(*plain))
            one.errors += row["category"].lower() != "no-error"
            if "mission" in row["category"] and (span := re.search("<v>(.*?)</v>", row["source"])):
                one.gone.append(
                    (span.start(), span.start() + len(span[1]), row["severity"] == "Major")
                )
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("ratings", type=Path)
    parser.add_argument("--engine", help="a folder of MODEL for CTranslate2, to write its outputs")
    parser.add_argument(
        "--contrast", action="store_true", help="with a closer look at the most suspicious words"
    )
    asked = parser.parse_args()
    model, tokenizer = load(asked.model)
    hasten(asked.engine)
    outputs = rated(asked.ratings)
    rng = random.Random(1)
    sources = sorted({one.source for one in outputs if 4 <= len(one.source) <= 150})
    rng.shuffle(sources)
    listeners = dwindle.listeners(model, tokenizer, sources[:SOURCES], contrast=asked.contrast)
    free = rng.sample(clean := [one for one in outputs if not one.errors], min(FREE, len(clean)))
    marked = [one for one in outputs if one.gone]
    both = free + marked
    found = list(
        dwindle.omissions(model, tokenizer, [(one.source, one.text) for one in both], listeners)
    )
    kept = [(one, f) for one, f in zip(both, found, strict=True) if f.score is not None]
    calm = np.array([f.score for one, f in kept if not one.errors])
    major = np.array([f.score for one, f in kept if one.is_major])
    words = [
        (score, any(a <= part.middle < b for a, b, _ in one.gone))
        for one, f in kept
        if one.gone
        for part, score in zip(f.parts, f.scores, strict=True)
    ]
    labels = np.array([True] * len(major) + [False] * len(calm))
    print(
        f"{asked.ratings.name}: {len(calm)} error-free, {len(major)} with a major omission; heads "
        f"{listeners.heads}"
    )
    print(
        "word AUROC "
        f"{auroc(np.array([gone for _, gone in words]), np.array([s for s, _ in words])):.3f}"
    )
    print(f"item AUROC {auroc(labels, np.concatenate([major, calm])):.3f}")
    at = {"asked 5 %": listeners.threshold, "5 % of the error-free": conformal(calm.tolist(), 0.05)}
    for name, threshold in at.items():
        alarmed = [interval(bootstrapped(scores > threshold, np.mean)) for scores in (calm, major)]
        print(
            f"{name}: alarmed {alarmed[0]} of the error-free, {alarmed[1]} of the major omissions"
        )


if __name__ == "__main__":
    main()
