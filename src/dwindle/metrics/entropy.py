"""Coverage entropy: how evenly an output has drawn on its source, from a coverage file.

With coverage c over n positions and p = c / sum(c), H = - sum p log p in nats (paper, section 4.3),
also divided by log n, which makes sources of different lengths comparable. It is given for raw
coverage (the sum of attention) and for effective coverage (the sum of diminished weights): a
concave map flattens by itself, so only raw is comparable with a model without diminishing. H is
taken per layer, and layers are averaged. The file is described in
``dwindle.runfiles.arrays``.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dwindle.metrics.kind import Kind
from dwindle.metrics.score import Array, Metric, Progress, made, mean
from dwindle.runfiles.arrays import read_coverage
from dwindle.runfiles.names import COVERAGE
from dwindle.runfiles.outputs import Outputs

KINDS = (
    Kind("entropy-raw", "H raw", 0, "nats"),
    Kind("entropy-raw-even", "H raw / log n", decimals=3),
    Kind("entropy-effective", "H effective", 0, "nats"),
    Kind("entropy-effective-even", "H effective / log n", decimals=3),
)


@dataclass(frozen=True)
class Entropy:
    """Row: H of raw coverage, H / log n of it, then both of effective coverage. ``path``: empty is
    coverage.npz in the folder of the outputs."""

    path: str = ""

    @property
    def needs(self) -> frozenset[str]:
        return frozenset() if self.path else frozenset({"coverage"})

    def rows(self, system: Outputs, progress: Progress) -> Array:
        path = Path(self.path) if self.path else (system.folder or Path()) / COVERAGE
        if not path.is_file():
            raise ValueError(
                f"entropy needs a coverage file, but {path} is not there: name one as "
                "entropy:FILE.npz"
            )
        coverage = read_coverage(path)
        lacking = [item.id for item in system.items if item.id not in coverage]
        if lacking:
            raise ValueError(
                f"{path} has no coverage for id {lacking[0]!r}: make it with the same outputs"
            )
        rows = np.array(
            [entropies(coverage[item.id], f"{path}, item {item.id!r}") for item in system.items]
        )
        progress(len(system))
        return rows


def entropies(coverage: Array, where: str) -> list[float]:
    """Row of a coverage (2, L, S): H of raw coverage, H / log n of it, then both of effective."""
    if not np.isfinite(coverage).all() or (coverage < 0).any():
        raise ValueError(
            f"{where} has a coverage that is negative or not a number: coverage is a sum of weights"
        )
    totals = coverage.sum(-1, keepdims=True)
    if (totals <= 0).any():
        raise ValueError(f"{where} has a layer with no coverage at all: was anything decoded?")
    shares = coverage / totals
    logs = np.log(np.where(shares > 0, shares, 1.0))
    entropies = -(shares * logs).sum(-1).mean(-1)  # (2,): layers averaged
    positions = coverage.shape[-1]
    # One position is covered as evenly as can be.
    even = entropies / np.log(positions) if positions > 1 else np.ones(2)
    return [float(x) for pair in zip(entropies, even, strict=True) for x in pair]


def metrics(option: str = "") -> list[Metric]:
    """``entropy-raw`` and ``entropy-effective`` in nats, and over log n; option: coverage file."""
    settings = made(unit="nats", layers="mean", file=Path(option).name if option else COVERAGE)
    return [Metric(kind, Entropy(option), (i,), mean, settings) for i, kind in enumerate(KINDS)]
