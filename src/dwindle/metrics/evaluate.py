"""Hypotheses and references in, scores out: the whole room in one call, for whoever has texts in Python."""

from collections.abc import Sequence

from dwindle.folder.outputs import Item, outputs
from dwindle.metrics import catalogue
from dwindle.metrics.score import Score, score


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[str | Sequence[str]] | None = None,
    sources: Sequence[str] | None = None,
    metrics: str | Sequence[str] | None = None,
) -> dict[str, Score]:
    """The scores of one system, by the names of their metrics.

    Args:
        hypotheses: What the system wrote, one text an item. A newline separates sentences.
        references: For each item a text, or several.
        sources: For each item what it was written from.
        metrics: Names as in ``dwindle score --metrics``, in a list or with commas between; None takes every quick
            metric that these texts allow.

    Example:
        ``evaluate(["the cat sat"], ["a cat sat"], metrics="rouge")["rouge1"].value``
    """
    if isinstance(hypotheses, str) or isinstance(references, str) or isinstance(sources, str):
        raise ValueError("one text was given for all items: give a list of texts, even for one")
    for name, texts in (("references", references), ("sources", sources)):
        if texts is not None and len(texts) != len(hypotheses):
            raise ValueError(f"{len(hypotheses)} hypotheses and {len(texts)} {name}: give one for each")
    items = [
        Item(str(k), hypothesis, _several(references[k]) if references else (), sources[k] if sources else None)
        for k, hypothesis in enumerate(hypotheses)
    ]
    system = outputs("these texts", items)
    wanted = [name.strip() for name in metrics.split(",")] if isinstance(metrics, str) else metrics
    chosen = catalogue.defaults(system) if wanted is None else catalogue.find(wanted)
    return {one.metric: one for one in score(system, chosen)}


def _several(reference: str | Sequence[str]) -> tuple[str, ...]:
    return (reference,) if isinstance(reference, str) else tuple(reference)
