"""The chart of RESULTS.md: ROUGE-1 against repeated trigrams, from the figures of an arena.

    python docs/results/chart.py docs/results/news-bounded.json docs/results/news-bounded.svg

A file here has the means over seeds, not the outputs from which a report draws its chart. So the
bars reach from the lowest to the highest seed. Blue are arms that were trained with a rule or with
See's coverage, orange those with a rule while decoding, green squares other searches.
"""

import argparse
import json
from pathlib import Path

from dwindle.report.scatter import Axis, Point
from dwindle.report.tradeoff import WAYS, Tradeoff
from dwindle.runfiles import whole

SEARCHES = ("blocking", "coverage-gehrmann", "temporal")


def way(arm: str) -> str:
    """The way in which an arm of the task ``news`` differs from plain attention."""
    if arm == "plain":
        return ""
    return "search" if arm in SEARCHES else "decoding" if arm.startswith("switch") else "trained"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    told = json.loads(asked.results.read_text(encoding="utf-8"))
    means = {(row["arm"], row["metric"]): row for row in told["means"]}
    points = []
    for arm in told["arms"]:
        x, y = means[arm, "repetition3"], means[arm, "rouge1"]
        across, upright = ((one["lowest"], one["highest"]) for one in (x, y))
        colour = WAYS[way(arm)].colour if way(arm) else "s0"
        square = way(arm) == "search"
        points.append(Point(arm, x["value"], y["value"], across, upright, colour, square))
    chart = Tradeoff(
        "ROUGE-1 against repeated 3-grams",
        Axis("repeated 3-grams, % ↓"),
        Axis("ROUGE-1 ↑"),
        points,
        "Bars reach from the lowest to the highest seed",
        tuple(filter(None, map(way, told["arms"]))),
    )
    whole.write_text(asked.out, chart.file())


if __name__ == "__main__":
    main()
