"""The figures as files, PNG and SVG: Figure 1's illustration, repetition with the references
(Figure 2), the entropies of coverage, and what every g gives. Drawn from the same numbers as the
page.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from dwindle.analysis.measure import REFERENCE, Measured
from dwindle.core.concave import functions
from dwindle.core.notation import rule
from dwindle.metrics.repetition import ORDERS
from dwindle.metrics.text_tables import slug
from dwindle.report import illustration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#8a9097", "#1f5f8b", "#b5651d", "#35795a", "#86568f", "#9a8418", "#a33d4f", "#3f7f8c")
"""The colours of the page. Colour-blind readers can tell them apart; in grey, their order does."""


def draw(tests: Sequence[Measured], folder: Path) -> list[Path]:
    """Every figure that these numbers allow, into ``folder``; the files that were written."""
    try:
        import matplotlib as _  # noqa: F401
    except ModuleNotFoundError:
        raise ValueError("figures need matplotlib: type pip install 'dwindle[figures]'") from None
    folder.mkdir(parents=True, exist_ok=True)
    panels = {
        f"{name}\n{text}": illustration.illustrate(rule(text))
        for name, text in illustration.RULES.items()
    }
    files = [folder / f"figure1.{kind}" for kind in ("png", "svg")]
    for file in files:
        illustration.draw(panels, file)
    files += _saved(gains(), folder / "gains")
    for measured in tests:
        ending = f"-{slug(measured.test.name)}" if len(tests) > 1 else ""
        files += _saved(repetition(measured), folder / f"repetition{ending}")
        if measured.has("entropy-raw"):
            files += _saved(entropy(measured), folder / f"entropy{ending}")
    return files


def repetition(measured: Measured) -> "Figure":
    """Figure 2: repeated n-grams in percent, the references first."""
    names = [name for name in (REFERENCE, *measured.arms) if measured.value(name, "repetition1")]
    figure, (axis,) = _figure(1, 6.4, 3.2)
    width = 0.8 / len(names)
    for k, name in enumerate(names):
        values = [measured.value(name, f"repetition{n}") for n in ORDERS]
        heights = [value.value if value else 0.0 for value in values]
        places = [n - 0.4 + (k + 0.5) * width for n in ORDERS]
        axis.bar(places, heights, 0.92 * width, label=name, color=_colour(measured, name))
    axis.set_xticks(list(ORDERS), [f"{n}-grams" for n in ORDERS])
    axis.set_ylabel("repeated, %")
    axis.legend(frameon=False, fontsize=8)
    return figure


def entropy(measured: Measured) -> "Figure":
    """Entropy of coverage, a dot with its interval for each arm: raw by raw, then effective."""
    figure, axes = _figure(2, 8.4, 1.2 + 0.35 * len(measured.arms))
    for axis, kind in zip(axes, ("raw", "effective"), strict=True):
        found = [(name, measured.value(name, f"entropy-{kind}")) for name in measured.arms]
        known = [(name, value) for name, value in found if value]
        for place, (name, value) in enumerate(known):
            ends = [[max(value.value - value.low, 0.0)], [max(value.high - value.value, 0.0)]]
            axis.errorbar(
                [value.value], [place], xerr=ends, fmt="o", capsize=3, color=_colour(measured, name)
            )
        axis.set_yticks(range(len(known)), [name for name, _ in known])
        axis.set_ylim(len(known) - 0.5, -0.5)
        axis.set_xlabel(f"H of {kind} coverage, nats")
    return figure


def gains() -> "Figure":
    """Every g from 0 on, and its slope: the return of one more unit at a coverage of x."""
    figure, axes = _figure(2, 10.0, 3.4)
    x = torch.linspace(0, 5, 201, dtype=torch.float64)
    made = [
        function(*example) for function in functions().values() for example in function.examples
    ]
    for k, g in enumerate(made):
        style = {
            "color": COLOURS[k % len(COLOURS)],
            "linestyle": "-" if k < len(COLOURS) else "--",
            "linewidth": 1.5,
        }
        axes[0].plot(
            x, g.value(x) - g.value(torch.zeros_like(x)), label=f"{g}: {g.formula}", **style
        )
        axes[1].plot(x, g.slope(x), **style)
    axes[0].set_title("g(x) \N{MINUS SIGN} g(0)", fontsize=10)
    axes[1].set_title("slope g\N{PRIME}(x)", fontsize=10)
    for axis in axes:
        axis.set_xlabel("coverage x")
    figure.legend(frameon=False, fontsize=7, loc="outside right center")
    return figure


def _figure(columns: int, width: float, height: float) -> tuple["Figure", Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    return figure, axes


def _colour(measured: Measured, name: str) -> str:
    return "#20242a" if name == REFERENCE else COLOURS[measured.arms.index(name) % len(COLOURS)]


def _saved(figure: "Figure", stem: Path) -> list[Path]:
    files = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    for file in files:
        figure.savefig(file, dpi=160)
    return files
