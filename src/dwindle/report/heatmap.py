"""A heat map of attention: a row for each token of an output, a column for each of its source. No models."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt


def draw(
    source: Sequence[str], target: Sequence[str], panels: Mapping[str, npt.NDArray[np.float64]], path: Path
) -> None:
    """Draw the panels (T, S) one under the other on one scale, each over a strip of its coverage. PNG or SVG."""
    from matplotlib.figure import Figure  # an extra: only whoever draws needs it

    rows, columns = len(target), len(source)
    top = max(float(panel.max()) for panel in panels.values())
    covered = max(float(panel.sum(0).max()) for panel in panels.values())
    height = (rows + 3) * 0.17 + 0.5
    figure = Figure(figsize=(max(5.0, 0.17 * columns + 1.5), len(panels) * height + 1.2), layout="constrained")
    grid = figure.subplots(2 * len(panels), 1, sharex=True, height_ratios=[rows, 1] * len(panels), squeeze=False)
    for (above, below), (title, panel) in zip(grid.reshape(-1, 2), panels.items(), strict=True):
        above.imshow(panel, aspect="auto", cmap="Blues", vmin=0, vmax=top, interpolation="nearest")
        above.set_title(
            f"{title} (row sums {panel.sum(1).min():.2f} to {panel.sum(1).max():.2f})", fontsize=9, loc="left"
        )
        above.set_yticks(range(rows), target, fontsize=6)
        below.imshow(panel.sum(0)[None], aspect="auto", cmap="Oranges", vmin=0, vmax=covered, interpolation="nearest")
        below.set_yticks([0], ["coverage"], fontsize=6)
    grid[-1, 0].set_xticks(range(columns), source, fontsize=6, rotation=90)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
