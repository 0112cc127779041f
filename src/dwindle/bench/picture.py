"""The picture of ``dwindle bench attention``: ratios to plain fused attention, one panel a shape."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dwindle.bench.attention import Timing


def draw(results: Mapping[str, Sequence[Timing]], path: Path) -> None:
    """Bars of forward and forward + backward over SDPA; the line at 1 is its price."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ValueError("the picture needs matplotlib: type pip install 'dwindle[figures]'") from None
    figure = Figure(figsize=(8, 1 + 1.8 * len(results)), layout="constrained")
    panels = figure.subplots(len(results), 1, squeeze=False)[:, 0]
    for panel, (name, rows) in zip(panels, results.items(), strict=True):
        places = range(len(rows))
        panel.barh([y - 0.2 for y in places], [r.forward_to_sdpa for r in rows], 0.38, label="forward")
        panel.barh([y + 0.2 for y in places], [r.both_to_sdpa or 0 for r in rows], 0.38, label="forward + backward")
        panel.axvline(1, color="black", linewidth=0.8)
        panel.set_yticks(list(places), [r.contender for r in rows], fontsize=7)
        panel.invert_yaxis()
        panel.set_title(f"{name}: time / SDPA", fontsize=9, loc="left")
    panels[0].legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
