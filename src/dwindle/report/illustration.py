"""The paper's Figure 1 on a small example: three decoding steps over four source positions.

It computes coverage, attention and diminished weights with the rules themselves, and draws them. It
knows nothing of models: the attention is made up so that both of the figure's points can be seen.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from dwindle.core.coverage import Coverage
from dwindle.core.notation import row_rule
from dwindle.core.rules import Rule

# Position 1 gets 0.4 twice in a row: its second return is smaller (the figure's red block). In the
# last step positions 1 and 4 get the same 0.4, and 1, covered more, returns less (the yellow
# block).
ATTENTION = ((0.50, 0.25, 0.15, 0.10), (0.40, 0.30, 0.20, 0.10), (0.40, 0.10, 0.10, 0.40))
RULES = {"Plain": "plain", "Dim": "dim:log", "DyDim": "dydim:boxcox(0),boxcox(0.5)"}
"""The rules that are drawn side by side."""
_MARKS = ((1, 1, "#cc3333"), (2, 1, "#cc3333"), (2, 4, "#d9a400"))  # step, position, colour
_STEP_COLOURS = ("#8c6d46", "#7b5ea7", "#3b78b5")  # brown, purple, blue, as in the paper


@dataclass(frozen=True)
class Moment:
    """One decoding step of one rule; each tuple has a number for every source position."""

    attention: tuple[float, ...]
    weights: tuple[float, ...]
    coverage: tuple[float, ...]
    """Coverage after this step."""


def illustrate(rule: Rule | str) -> list[Moment]:
    """Run ``rule`` over the rows of ``ATTENTION``, one step at a time as a decoder would."""
    steps = []
    coverage: Coverage | None = None
    for row in ATTENTION:
        weights, coverage = row_rule(rule)(torch.tensor([row], dtype=torch.float64), coverage)
        steps.append(Moment(row, tuple(weights[0].tolist()), tuple(coverage.total.tolist())))
    return steps


def draw(panels: dict[str, list[Moment]], path: Path) -> None:
    """Draw a row of charts a step: coverage so far, then each rule's weights. PNG or SVG."""
    from matplotlib.figure import Figure  # an extra: only whoever draws needs it
    from matplotlib.patches import Rectangle

    positions = range(1, len(ATTENTION[0]) + 1)
    figure = Figure(figsize=(2.7 * (1 + len(panels)), 1.9 * len(ATTENTION)), layout="constrained")
    grid = figure.subplots(
        len(ATTENTION), 1 + len(panels), sharex=True, sharey="col", squeeze=False
    )
    for axis, name in zip(grid[0], ["coverage", *panels], strict=True):
        axis.set_title(name, fontsize=10)

    for t, axes in enumerate(grid):
        axes[0].set_ylabel(f"step {t}")
        below = [0.0] * len(positions)
        for attention, colour in zip(ATTENTION[: t + 1], _STEP_COLOURS, strict=False):
            axes[0].bar(positions, attention, bottom=below, color=colour, width=0.7)
            below = [low + a for low, a in zip(below, attention, strict=True)]
        for axis, steps in zip(axes[1:], panels.values(), strict=True):
            axis.bar(positions, steps[t].attention, color="none", edgecolor="#999999", width=0.7)
            axis.bar(positions, steps[t].weights, color=_STEP_COLOURS[t], width=0.7)
            axis.set_ylim(0, 0.62)
            for i, a, weight in zip(positions, steps[t].attention, steps[t].weights, strict=True):
                axis.text(i, max(a, weight) + 0.015, f"{weight:.2f}", ha="center", fontsize=7)
        for axis in axes:
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_xticks(list(positions))

    for t, i, colour in _MARKS:
        for axis in grid[t][2:]:
            axis.add_patch(
                Rectangle((i - 0.45, 0), 0.9, 0.5, fill=False, linestyle="--", edgecolor=colour)
            )
    figure.supxlabel(
        "source position; outline: plain attention, filled: weight used\n"
        "red box: 0.4 again at one position returns less; yellow box: 0.4 where less was covered "
        "returns more",
        fontsize=9,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
