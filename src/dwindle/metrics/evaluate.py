"""Texts in, scores and tested differences out: the whole room in one call, from Python."""

from collections.abc import Sequence
from typing import Any

from dwindle.display import optional, pieces
from dwindle.metrics import catalogue, significance
from dwindle.metrics.score import Metric, Score, reduce, score
from dwindle.metrics.significance import PairedTest
from dwindle.metrics.table import p_value
from dwindle.runfiles.outputs import Item, Outputs, outputs


class Evaluation(dict[str, Score]):
    """Scores by the names of their metrics, which a notebook shows as a table."""

    def __repr__(self) -> str:
        shown = [f"{name} {catalogue.kind(name).text(one.value)}" for name, one in self.items()]
        return f"Evaluation({', '.join(shown)})"

    def _repr_html_(self) -> str:
        rows = [
            (catalogue.title(n), catalogue.kind(n).text(one.value), one.signature)
            for n, one in self.items()
        ]
        return pieces.table(("metric", "value", "how it was made"), rows)

    def to_pandas(self) -> Any:
        """A row for each metric: its name, value, interval and signature."""
        return optional.frame([one.record for one in self.values()])

    def plot(self, axes: Any = None) -> Any:
        """The values as bars; the axes."""
        axes = optional.axes(axes, height=1.0 + 0.28 * len(self))
        axes.barh(
            [catalogue.title(name) for name in self],
            [one.value for one in self.values()],
            color="#1f5f8b",
        )
        axes.invert_yaxis()
        return axes


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[str | Sequence[str]] | None = None,
    sources: Sequence[str] | None = None,
    metrics: str | Sequence[str] | None = None,
) -> Evaluation:
    """Score the outputs of one system.

    Args:
        hypotheses: outputs of the system, one text an item. A newline separates sentences.
        references: for each item a text, or several.
        sources: for each item the text that the output was written from.
        metrics: names as in ``dwindle score --metrics``, in a list or with commas between; None
            takes every quick metric that these texts allow.

    Returns:
        A dictionary of scores by the names of their metrics, which a notebook shows as a table.

    Example:
        >>> dwindle.evaluate(["the cat sat"], ["a cat sat"], metrics="rouge1")
        Evaluation(rouge1 66.67)
    """
    system = _system("these texts", hypotheses, references, sources)
    return Evaluation({one.metric: one for one in score(system, _metrics(metrics, system))})


class SystemComparison(dict[str, PairedTest]):
    """Gains of a system over a base by the names of metrics, which a notebook shows as a table."""

    def __repr__(self) -> str:
        inside = ", ".join(f"{name} {one.text} ({_p(one)})" for name, one in self.items())
        return f"SystemComparison({inside})"

    def _repr_html_(self) -> str:
        rows = [
            (
                catalogue.with_arrow(n),
                kind.text(one.base),
                kind.text(one.score.value),
                one.text,
                one.interval,
                _p(one),
            )
            for n, one in self.items()
            for kind in [catalogue.kind(n)]
        ]
        return pieces.table(("metric", "base", "system", "difference", "95 % interval", "p"), rows)

    def to_pandas(self) -> Any:
        """A row for each metric: both values, difference, interval, p, and whether it is clear."""
        return optional.frame(
            [
                {
                    "metric": name,
                    "base": one.base,
                    "value": one.score.value,
                    "difference": one.difference,
                }
                | {"low": one.low, "high": one.high, "p": one.p, "clear": one.clear}
                for name, one in self.items()
            ]
        )

    def plot(self, axes: Any = None) -> Any:
        """The differences with their intervals, in colour where they are clear; the axes."""
        axes = optional.axes(axes, height=1.0 + 0.28 * len(self))
        colours = {"better": "#1b7f4d", "worse": "#b3261e"}
        for place, (name, one) in enumerate(self.items()):
            colour = colours.get(one.tone, "#8a9097")
            axes.plot([one.low, one.high], [place, place], color=colour)
            axes.plot([one.difference], [place], "o", color=colour, label=name)
        axes.set_yticks(range(len(self)), [catalogue.with_arrow(name) for name in self])
        axes.axvline(0, color="#20242a", linestyle=":")
        axes.invert_yaxis()
        axes.set_xlabel("difference to the base, with 95 % intervals")
        return axes


def compare(
    base: Sequence[str],
    other: Sequence[str],
    references: Sequence[str | Sequence[str]] | None = None,
    sources: Sequence[str] | None = None,
    metrics: str | Sequence[str] | None = None,
) -> SystemComparison:
    """Test the difference between two systems by each metric, as ``dwindle compare`` does.

    Args:
        base: outputs of the first system, one text an item.
        other: outputs of the second system for the same items.
        references: as in ``evaluate``.
        sources: as in ``evaluate``.
        metrics: as in ``evaluate``.

    Returns:
        A dictionary by the names of the metrics: the gain of ``other`` over ``base``, with a 95 %
        interval and a p-value of approximate randomisation.

    Example:
        >>> looping, fine = ["ha ha ha ha"] * 20, ["the ferry is late"] * 20
        >>> dwindle.compare(looping, fine, metrics="repetition2")["repetition2"].clear
        True
    """
    if len(base) != len(other):
        raise ValueError(
            f"the base has {len(base)} texts, the other {len(other)}: give one of each for every "
            "item"
        )
    one, two = (
        _system(name, texts, references, sources)
        for name, texts in (("base", base), ("other", other))
    )
    chosen = _metrics(metrics, one, two)
    (tests,) = significance.compare(reduce(one, chosen), [reduce(two, chosen)], chosen)
    return SystemComparison({test.metric: test for test in tests})


def _p(test: PairedTest) -> str:
    return "" if test.p is None else p_value(test.p)


def _system(
    name: str,
    hypotheses: Sequence[str],
    references: Sequence[str | Sequence[str]] | None,
    sources: Sequence[str] | None,
) -> Outputs:
    """Texts as the outputs of one system."""
    if isinstance(hypotheses, str) or isinstance(references, str) or isinstance(sources, str):
        raise ValueError("one text was given for all items: give a list of texts, even for one")
    for what, texts in (("references", references), ("sources", sources)):
        if texts is not None and len(texts) != len(hypotheses):
            raise ValueError(
                f"{len(hypotheses)} hypotheses and {len(texts)} {what}: give one for each"
            )
    items = [
        Item(
            str(k),
            hypothesis,
            _several(references[k]) if references else (),
            sources[k] if sources else None,
        )
        for k, hypothesis in enumerate(hypotheses)
    ]
    return outputs(name, items)


def _metrics(wanted: str | Sequence[str] | None, *systems: Outputs) -> list[Metric]:
    names = [name.strip() for name in wanted.split(",")] if isinstance(wanted, str) else wanted
    return catalogue.defaults(*systems) if names is None else catalogue.find(names)


def _several(reference: str | Sequence[str]) -> tuple[str, ...]:
    return (reference,) if isinstance(reference, str) else tuple(reference)
