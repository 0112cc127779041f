"""How well coverage tells what an output leaves out, on runs of the synthetic worlds, where that is
known.

    python benchmarks/left_out.py RUN...

A run is a folder of newsroom or phrasebook, with model and coverage.npz. Trains nothing. Prints
tables in Markdown: AUROC of effective coverage, raw attention (its sum, and its peak from a pass
over the outputs), lexical overlap, and listeners where `dwindle omissions` has written findings;
the threshold chosen on half of the items, and precision and recall on the other half; then the one
threshold that is best on all runs of newsroom together, the world whose parts are sentences.
`dwindle.analysis.left_out.THRESHOLD` is that.
"""

import sys

import numpy as np
import torch

from dwindle.analysis import arms, left_out, tables, views
from dwindle.analysis.views import audited
from dwindle.attaching.carrier import attended
from dwindle.metrics import text_tables
from dwindle.models.opened import opened
from dwindle.runfiles.run import Run


def peaks(run: Run) -> dict[str, np.ndarray]:
    """By item, the most attention that any row of its output paid to each source position, mean of
    layers, (S,)."""
    one = opened(str(run.path))
    model, codec = one.model, one.codec
    start = torch.tensor([[model.generation_config.decoder_start_token_id]])
    found = {}
    for item in run.outputs.items:
        batch = codec.collate([codec.encode(item.source, item.hypothesis)])
        # (L, 1, T, S)
        rows = attended(model, batch, torch.cat([start, batch.pop("labels")], 1)).attention
        found[item.id] = rows[:, 0].amax(1).mean(0).numpy()
    return found


def judged(run: Run) -> list[left_out.JudgedPart]:
    """All parts of all items under every method."""
    known, most, told = views.covered(run), peaks(run), audited(run)
    parts = []
    for item in run.outputs.items:
        sums = {"effective coverage": known.effective[item.id], "raw attention": known.raw[item.id]}
        marks = told.records[item.id]["chars"] if told else None
        parts += left_out.judged(
            item, sums | {"raw attention, peak": most[item.id]}, known.places[item.id], marks
        )
    return parts


def main(paths: list[str]) -> None:
    """Judge every run, each by itself."""
    pooled = []
    for test in arms.read(paths).tests:
        judgements = {arm.name: judged(arm.runs[0]) for arm in test.arms}
        print(text_tables.markdown([(test.name, tables.left_out(judgements), [])]))
        if test.items[0].extra["gold"]["world"] == "newsroom":
            pooled += [part for parts in judgements.values() for part in parts]
    if pooled:
        left = np.array([part.left_out for part in pooled])
        shares = np.array([part.scores["effective coverage"] for part in pooled])
        at = left_out.best_threshold(left, shares)
        for name, value in (
            ("best on all sentences of newsroom", at),
            ("in use", left_out.THRESHOLD),
        ):
            called = shares <= value
            precision, recall = left[called].mean(), called[left].mean()
            alarms = called[~left].mean()
            figures = f"precision {precision:.2f}, recall {recall:.2f}, false alarms {alarms:.2f}"
            print(f"threshold {value:.2f}, {name}: {figures}")


if __name__ == "__main__":
    main(sys.argv[1:])
