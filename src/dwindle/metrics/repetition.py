"""Repetition: which share of a text's n-grams it has had before.

For n-grams G of one output, repetition = 100 (1 - |distinct G| / |G|), 0 if it has none. The paper
gives no formula (it says "computed with the duplicate n-grams"); this is the usual one. Reads
hypotheses only.
"""

from dataclasses import dataclass

from dwindle.data.script import SETTING, words
from dwindle.metrics.kind import Kind
from dwindle.metrics.score import ItemReduction, Metric, made, mean, percent
from dwindle.runfiles.outputs import Item

ORDERS = (1, 2, 3, 4)
KINDS = tuple(Kind(f"repetition{n}", f"repeated {n}-grams", -1, "%") for n in ORDERS)


@dataclass(frozen=True)
class Repetition:
    """For each n: duplicate n-grams, n-grams, and the percentage."""

    needs: frozenset[str] = frozenset()

    def row(self, item: Item) -> list[float]:
        tokens = words(item.hypothesis)
        row: list[float] = []
        for n in ORDERS:
            total = max(len(tokens) - n + 1, 0)
            duplicates = total - len(set(zip(*(tokens[i:] for i in range(n)), strict=False)))
            row += [duplicates, total, 100 * duplicates / total if total else 0.0]
        return row


def metrics(option: str = "") -> list[Metric]:
    """``""`` is macro, the mean over outputs; ``micro`` pools the n-grams of all outputs."""
    return per_order("repetition", Repetition(), KINDS, option)


def per_order(
    name: str, reduction: ItemReduction, kinds: tuple[Kind, ...], option: str
) -> list[Metric]:
    """One metric for each n from columns (part, whole, percentage), macro or micro."""
    if option not in ("", "micro"):
        raise ValueError(f"{name} has no option {option!r}: write {name} (macro) or {name}:micro")
    settings = made(avg=option or "macro", tok="words", scripts=SETTING)
    return [
        Metric(kind, reduction, (3 * i, 3 * i + 1), percent, settings, option)
        if option
        else Metric(kind, reduction, (3 * i + 2,), mean, settings)
        for i, kind in enumerate(kinds)
    ]
