"""How omissions that people marked are told, and how often outputs are alarmed in which they found
no error.

    python benchmarks/omissions_labels.py MODEL RATINGS [--splits FILE --split test] [--contrast]

RATINGS is a .tsv of MQM ratings as Freitag et al. (2021) publish them (system, document, segment,
source and target with the error between <v> and </v>, category, severity), or a folder of the JSON
files of Zouhar et al. (2024), of which --splits and --split choose the documents. Outputs of many
systems; MODEL only reads them. An output is error-free if no rater found anything; a major omission
is one that any rater called major or critical. Listeners are chosen as `dwindle omissions` chooses
them, on outputs drawn from all that were rated. Intervals are 95 %, over outputs.
"""

import argparse
import csv
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from omissions_pairs import bootstrapped, hasten, interval, load

import dwindle
from dwindle.auditing.calibration import conformal
from dwindle.auditing.roc import auroc
from dwindle.cli.omissions import SOURCES

FREE, OTHER = 2000, 600
"""Largest numbers of error-free outputs, and of outputs with other errors only, that are
audited."""
KINDS = ("error-free", "other errors", "minor omission", "major omission")


@dataclass
class Output:
    source: str
    text: str
    errors: int = 0
    gone: list[tuple[int, int, bool]] = field(default_factory=list)
    """Where the source is said to be left out, and whether that is major."""

    @property
    def kind(self) -> str:
        """The worst that was found in it."""
        if not self.errors:
            return "error-free"
        if any(major for *_, major in self.gone):
            return "major omission"
        return "minor omission" if self.gone else "other errors"


def rated(path: Path, documents: set[str]) -> list[Output]:
    return list(from_json(path, documents)) if path.is_dir() else from_table(path)


def from_json(folder: Path, documents: set[str]) -> Iterator[Output]:
    for file in sorted(folder.glob("*.json")):
        for row in json.loads(file.read_text(encoding="utf-8")):
            if row["DOC_ID"] in documents:
                gone = [
                    (e["startIndex"], e["endIndex"], e["severity"] in ("Major", "Critical"))
                    for e in row["source_errors"]
                    if "mission" in e["error_subcategory"]
                ]
                errors = len(row["source_errors"]) + len(row["target_errors"])
                yield Output(row["source"], row["target"], errors, gone)


def from_table(path: Path) -> list[Output]:
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
    parser.add_argument("--splits", type=Path, help="doc_id_splits.json of the JSON files")
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    parser.add_argument("--engine", help="a folder of MODEL for CTranslate2, to write its outputs")
    parser.add_argument("--reverse", type=Path, help="a model of the other direction")
    parser.add_argument(
        "--contrast", action="store_true", help="with a closer look at the most suspicious words"
    )
    asked = parser.parse_args()
    documents: set[str] = set()
    if asked.splits:
        splits = json.loads(asked.splits.read_text(encoding="utf-8"))
        documents = set(splits[asked.ratings.name.replace("2", "-")][asked.split])
    outputs = rated(asked.ratings, documents)
    model, tokenizer = load(asked.model)
    hasten(asked.engine)
    reverse = dwindle.Reverse(*load(asked.reverse)) if asked.reverse else None
    drawn = random.Random(1).sample(outputs, min(SOURCES, len(outputs)))
    listeners = dwindle.listeners(
        model,
        tokenizer,
        [one.source for one in drawn],
        [one.text for one in drawn],
        reverse=reverse,
        contrast=asked.contrast,
    )
    audited = chosen(outputs)
    pairs = [(one.source, one.text) for one in audited]
    found = list(dwindle.omissions(model, tokenizer, pairs, listeners, reverse=reverse))
    tell(listeners, [(o, f) for o, f in zip(audited, found, strict=True) if f.score is not None])


def chosen(outputs: list[Output]) -> list[Output]:
    """Those that are audited: all omissions, and as many of the others as are allowed."""
    rng = random.Random(1)
    most = {"error-free": FREE, "other errors": OTHER}
    found: list[Output] = []
    for kind in KINDS:
        some = [one for one in outputs if one.kind == kind]
        found += rng.sample(some, min(most.get(kind, len(some)), len(some)))
    return found


def tell(listeners: dwindle.Listeners, kept: list[tuple[Output, Any]]) -> None:
    """Print all figures."""
    heads = ", ".join(f"{layer}.{head}" for layer, head in listeners.heads)
    print(f"heads {heads}; calibrated on {listeners.origin['calibrated_with']}")
    of = {kind: np.array([f.score for one, f in kept if one.kind == kind]) for kind in KINDS}
    words = [
        (score, any(a <= part.middle < b for a, b, _ in one.gone))
        for one, f in kept
        if one.gone
        for part, score in zip(f.parts, f.scores, strict=True)
    ]
    scores, gone = map(np.array, zip(*words, strict=True))
    calm, major = of["error-free"], of["major omission"]
    labels = np.array([True] * len(major) + [False] * len(calm))
    print(f"word AUROC {auroc(gone, scores):.3f}")
    print(f"item AUROC {auroc(labels, np.concatenate([major, calm])):.3f}")
    at = {"asked 5 %": listeners.threshold, "5 % of the error-free": conformal(calm.tolist(), 0.05)}
    for name, threshold in at.items():
        for kind, some in of.items():
            alarmed = interval(bootstrapped(some > threshold, np.mean))
            print(f"{name}: alarmed {alarmed} of {len(some)} with {kind}")


if __name__ == "__main__":
    main()
