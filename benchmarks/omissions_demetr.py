"""How well constructed omissions in other systems' translations are told, with and without a second
opinion.

    python benchmarks/omissions_demetr.py MODEL CHOOSE DATASET LANGUAGE --save RESULT.json

DATASET is the folder `dataset` of DEMETR (Karpinska et al., 2022): translations into English of
which a word or a phrase was taken out. LANGUAGE is its tag of the source's language, such as
french. MODEL translates in that direction and only reads. Listeners are chosen and calibrated on
CHOOSE, a sentence a line, as `dwindle omissions` does. DEMETR does not say which words of the
source are missing, so items are told, not words: each shortened translation from all whole ones.
Intervals are 95 %, over outputs. --reverse
names a model of the other direction: then the second opinion is measured too. The results hold
numbers and settings, not the texts.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from omissions_pairs import WAYS, bootstrapped, drawn, finish, hasten, lines, load, table, ways

import dwindle
from dwindle.auditing.roc import auroc

KINDS = {
    "a noun": "critical_id23_noun_removed",
    "a verb": "critical_id22_verb_removed",
    "the subject": "critical_id24_subj_removed",
    "a name": "critical_id25_ne_removed",
    "an adjective or adverb": "critical_id21_adj_adv_removed",
    "a prepositional phrase": "major_id5_pp_removed",
    "a conjunction": "minor_id12_conj_removed",
}


def read(folder: Path, name: str, language: str) -> dict[str, tuple[str, str]]:
    """Whole and shortened translation by source."""
    rows = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    mine = [
        row for row in rows if row["lang_tag"] == language and row["mt_sent"] != row["pert_sent"]
    ]
    if not mine:
        tags = ", ".join(sorted({row["lang_tag"] for row in rows}))
        raise SystemExit(f"DEMETR has no language {language}: it has {tags}")
    return {row["src_sent"]: (row["mt_sent"], row["pert_sent"]) for row in mine}


def item_auroc(some: list[tuple[float, bool]]) -> float:
    return auroc(np.array([is_gone for _, is_gone in some]), np.array([score for score, _ in some]))


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    model, tokenizer = load(asked.model)
    hasten(asked.engine)
    kinds = {kind: read(asked.dataset, name, asked.language) for kind, name in KINDS.items()}
    whole_ones = {source: pair[0] for some in kinds.values() for source, pair in some.items()}
    choose = lines(asked.choose)
    ordinary = [source for source, _ in drawn(choose, choose, asked.choose_items, seed=3)]
    result: dict[str, Any] = {
        "model": asked.model.name,
        "reverse": asked.reverse.name if asked.reverse else None,
        "language": asked.language,
        "chosen on": [asked.choose.name, len(ordinary)],
        "dwindle": dwindle.__version__,
    }
    for name, (second, contrast) in ways(asked.reverse).items():
        listeners = dwindle.listeners(model, tokenizer, ordinary, reverse=second, contrast=contrast)

        def scores(
            pairs: list[tuple[str, str]], listeners: Any = listeners, second: Any = second
        ) -> np.ndarray:
            found = dwindle.omissions(model, tokenizer, pairs, listeners, reverse=second)
            return np.array([one.score for one in found if one.score is not None])

        def alarmed(found: np.ndarray, threshold: float = listeners.threshold) -> list[float]:
            return bootstrapped(found > threshold, np.mean)

        intact = scores(list(whole_ones.items()))
        rows: dict[str, Any] = {f"whole ({len(intact)})": {"alarmed": alarmed(intact)}}
        for kind, some in kinds.items():
            gone = scores([(source, shortened) for source, (_, shortened) in some.items()])
            both = [*((score, True) for score in gone), *((score, False) for score in intact)]
            rows[f"{kind} ({len(gone)})"] = {
                "item AUROC": bootstrapped(both, item_auroc),
                "alarmed": alarmed(gone),
            }
        result[name] = {"heads": [list(head) for head in listeners.heads], "measured": rows}
    return result


def show(result: dict[str, Any]) -> None:
    for name in filter(result.__contains__, WAYS):
        table(
            f"{result['model']}, {name}",
            {"item AUROC": "item AUROC", "alarmed": "alarmed"},
            result[name]["measured"],
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("model", "choose", "dataset"):
        parser.add_argument(name, type=Path)
    parser.add_argument("language")
    parser.add_argument("--reverse", type=Path)
    parser.add_argument("--save", type=Path, required=True)
    parser.add_argument("--choose-items", type=int, default=200)
    parser.add_argument("--engine", help="a folder of MODEL for CTranslate2")
    asked = parser.parse_args()
    finish(measure(asked), asked.save, show)


if __name__ == "__main__":
    main()
