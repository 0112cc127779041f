"""Every metric by name. A name is a family (``rouge``) or a member (``rouge1``), with an option after a colon
(``rouge:recall``, ``bleu:moses-de``, ``mover:PATH``)."""

from collections.abc import Callable
from dataclasses import dataclass

from dwindle.metrics import (
    bleu,
    cider,
    copied,
    entropy,
    layout,
    length,
    moverscore,
    novelty,
    repetition,
    rouge,
    world,
)
from dwindle.metrics.score import Metric


@dataclass(frozen=True)
class Family:
    """Metrics that are reduced together: how they are built from an option, and their names without one."""

    build: Callable[[str], list[Metric]]
    members: tuple[str, ...]


FAMILIES = {
    "rouge": Family(rouge.metrics, rouge.NAMES),
    "bleu": Family(bleu.metrics, ("bleu",)),
    "cider": Family(cider.metrics, ("cider",)),
    "cider-d": Family(cider.metrics_d, ("cider-d",)),
    "mover": Family(moverscore.metrics, moverscore.NAMES),
    "repetition": Family(repetition.metrics, tuple(f"repetition{n}" for n in repetition.ORDERS)),
    "novelty": Family(novelty.metrics, tuple(f"novelty{n}" for n in copied.ORDERS)),
    "copied": Family(copied.metrics, ("copied-share", "copied-longest")),
    "layout": Family(layout.metrics, ("layout1", "layout2", "layoutL", "layoutL-reverse")),
    "length": Family(length.metrics, ("length", "sentences")),
    "entropy": Family(
        entropy.metrics, ("entropy-raw", "entropy-raw-even", "entropy-effective", "entropy-effective-even")
    ),
    "world": Family(world.metrics, world.NAMES),
}
_OWNERS = {member: name for name, family in FAMILIES.items() for member in family.members}


def find(names: list[str]) -> list[Metric]:
    """The metrics of these names, in order, each once. The option of a member is that of its family."""
    found: dict[str, Metric] = {}
    for name in names:
        head, _, option = name.partition(":")
        owner = head if head in FAMILIES else _OWNERS.get(head)
        if owner is None:
            raise ValueError(f"no metric is called {head!r}: choose from {', '.join(FAMILIES)}")
        metrics = FAMILIES[owner].build(option)
        if head not in FAMILIES:
            metrics = [m for m in metrics if m.name.partition(":")[0] == head]
            if not metrics:
                raise ValueError(f"{head} has no option {option!r}: leave it out")
        for metric in metrics:
            found[metric.name] = metric
    if not found:
        raise ValueError(f"no metric was named: choose from {', '.join(FAMILIES)}")
    return list(found.values())
