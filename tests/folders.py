"""Run folders, arenas and plain files for tests, with the documented files and synthetic text."""

import json
import random
from pathlib import Path

import numpy as np

from dwindle.models.token_offsets import places
from dwindle.runfiles import arrays, names

WORDS = """the mayor closed a bridge and children went by ferry to school on friday while ships
waited""".split()  # noqa: SIM905
NASTY = (
    "</script><script>document.title='broken'</script><img src=x onerror='document.title=0'> & {{ "
    "7*7 }} \u202e"
)


def records(seed, count=12, sources=True, references=True):
    """Outputs of a made system: the sources and references are the same for every seed, the outputs
    are not."""
    made = []
    for i in range(count):
        fixed, rng = random.Random(i), random.Random(f"{seed} {i}")
        source = [" ".join(fixed.choices(WORDS, k=9)) + " ." for _ in range(6)]
        record = {
            "id": f"item-{i}",
            "hypothesis": "\n".join([rng.choice(source), " ".join(rng.choices(WORDS, k=7))]),
        }
        if sources:
            record["source"] = "\n".join(source)
        if references:
            record["reference"] = "\n".join([source[0], " ".join(fixed.choices(WORDS, k=6))])
        made.append(record)
    return made


def plain(path, seed=0, **how):
    """A plain outputs.jsonl."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(json.dumps(record) + "\n" for record in records(seed, **how)), encoding="utf-8"
    )
    return path


def recipe(rule="plain", **changes):
    made = {
        "data": {"corpus": "newsroom", "size": {"train": 100, "dev": 10, "test": 12}},
        "model": {
            "kind": "pointer-generator",
            "rule": rule,
            "source_length": 400,
            "coverage": False,
        },
        "training": {"steps": 10},
        "decoding": {"beams": 4, "length_norm": "none", "block_ngrams": 0},
        "metrics": ["rouge"],
        "seed": 1,
    }
    for name, value in changes.items():
        part, _, key = name.partition("__")
        made[part][key] = value
    return made


def run(folder, seed=0, given=None, coverage=True, **how):
    """A run folder as ``dwindle run`` leaves it, without a model."""
    plain(folder / "outputs.jsonl", seed, **how)
    # JSON is YAML
    (folder / "recipe.yaml").write_text(json.dumps(given or recipe()), encoding="utf-8")
    (folder / "run.json").write_text(
        json.dumps({"seed": seed, "stages": {"train": {}, "generate": {}}})
    )
    if coverage:
        _covered(folder, records(seed, **how))
    return folder


def _covered(folder, made):
    """A coverage file, its positions the words of the source and an end token, and a trace of the
    first item."""
    rng = np.random.default_rng(0)
    covered, at = {}, {}
    for k, record in enumerate(made):
        source, output = record.get("source", "x"), record["hypothesis"]
        tokens = [*source.split(), "</s>"]
        rows = rng.dirichlet(np.full(len(tokens), 0.2), size=len(output.split())).astype(np.float32)
        at[record["id"]] = places(tokens, source)
        covered[record["id"]] = (np.stack([rows.sum(0)] * 2), np.stack([np.log1p(rows.sum(0))] * 2))
        if k == 0:
            words = [f" {word}" for word in output.split()]
            arrays.write_traces(
                folder / names.TRACES,
                [
                    arrays.Trace(
                        record["id"], source, tokens, at[record["id"]], words, rows, rows / 2
                    )
                ],
            )
    arrays.write_coverage(folder / "coverage.npz", covered, at)


def arena(folder: Path, arms=("plain", "dim"), seeds=(1, 2)):
    """An arena of arms and seeds."""
    for k, arm in enumerate(arms):
        for seed in seeds:
            run(folder / arm / f"seed-{seed}", seed + 10 * k, recipe("dim:log" if k else "plain"))
    content = {"base": arms[0], "arms": list(arms), "seeds": list(seeds)}
    (folder / "arena.json").write_text(json.dumps(content))
    return folder
