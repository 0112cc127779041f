"""How well coverage tells what an output leaves out, on runs of the made worlds, where that is known.

    python benchmarks/left_out.py RUN...      run folders of newsroom or phrasebook, with their coverage.npz

Trains nothing. Prints tables in Markdown: AUROC of effective coverage, raw attention and lexical overlap, the
threshold chosen on half of the items, and precision and recall on the other half; then the one threshold that is best
on all runs of newsroom together, the world whose parts are sentences. `dwindle.analysis.left_out.THRESHOLD` is that.
"""

import sys

import numpy as np

from dwindle.analysis import arms, left_out, tables, views
from dwindle.analysis.measure import Measured
from dwindle.report import plain


def main(paths: list[str]) -> None:
    """Judge every run, each by itself."""
    pooled = []
    for test in arms.read(paths).tests:
        measured = Measured(test, [])
        found = [views.covered(arm.runs[0]) for arm in test.arms]
        judgements = views.known_parts(measured, found)
        print(plain.markdown([(test.name, tables.left_out(judgements), [])]))
        if test.items[0].extra["gold"]["world"] == "newsroom":
            pooled += [part for parts in judgements.values() for part in parts]
    if pooled:
        left = np.array([part.left_out for part in pooled])
        shares = np.array([part.scores[0] for part in pooled])
        at = left_out.best_threshold(left, shares)
        for name, value in (("best on all sentences of newsroom", at), ("in use", left_out.THRESHOLD)):
            called = shares <= value
            precision, recall = left[called].mean(), called[left].mean()
            alarms = called[~left].mean()
            figures = f"precision {precision:.2f}, recall {recall:.2f}, false alarms {alarms:.2f}"
            print(f"threshold {value:.2f}, {name}: {figures}")


if __name__ == "__main__":
    main(sys.argv[1:])
