"""Every metric by name. A name is a group (``rouge``) or a member of one (``rouge1``), with an option after a colon
(``rouge:recall``, ``bleu:moses-de``, ``mover:PATH``)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dwindle.folder.outputs import Outputs
from dwindle.metrics import (
    bleu,
    chrf,
    cider,
    coco_bleu,
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
from dwindle.metrics.kind import Kind, split
from dwindle.metrics.score import Metric


@dataclass(frozen=True)
class Group:
    """Metrics that are reduced together: how they are built from an option, and what they are."""

    build: Callable[[str], list[Metric]]
    kinds: tuple[Kind, ...]
    default: bool = False
    """Whether it is measured wherever the outputs allow it, without being asked for."""


GROUPS = {
    "rouge": Group(rouge.metrics, rouge.KINDS, default=True),
    "bleu": Group(bleu.metrics, (bleu.KIND,)),
    "chrf": Group(chrf.metrics, (chrf.KIND,)),
    "coco-bleu": Group(coco_bleu.metrics, coco_bleu.KINDS),
    "cider": Group(cider.metrics, (cider.CIDER,)),
    "cider-d": Group(cider.metrics_d, (cider.CIDER_D,)),
    "mover": Group(moverscore.metrics, moverscore.KINDS),
    "repetition": Group(repetition.metrics, repetition.KINDS, default=True),
    "novelty": Group(novelty.metrics, novelty.KINDS, default=True),
    "copied": Group(copied.metrics, (copied.SHARE, copied.LONGEST), default=True),
    "layout": Group(layout.metrics, layout.KINDS, default=True),
    "length": Group(length.metrics, (length.LENGTH, length.SENTENCES, length.RATIO), default=True),
    "entropy": Group(entropy.metrics, entropy.KINDS, default=True),
    "world": Group(world.metrics, world.KINDS, default=True),
}
_OWNERS = {kind.name: name for name, group in GROUPS.items() for kind in group.kinds}
_KINDS = {kind.name: kind for group in GROUPS.values() for kind in group.kinds}


def find(names: Sequence[str]) -> list[Metric]:
    """The metrics of these names, in order, each once. The option of a member is that of its group."""
    found: dict[str, Metric] = {}
    for name in names:
        head, _, option = name.partition(":")
        owner = head if head in GROUPS else _OWNERS.get(head)
        if owner is None:
            raise ValueError(f"no metric is called {head!r}: choose from {', '.join(GROUPS)}")
        metrics = GROUPS[owner].build(option)
        if head not in GROUPS:
            metrics = [m for m in metrics if split(m.name).kind == head]
            if not metrics:
                raise ValueError(f"{head} has no option {option!r}: leave it out")
        for metric in metrics:
            found[metric.name] = metric
    if not found:
        raise ValueError(f"no metric was named: choose from {', '.join(GROUPS)}")
    return list(found.values())


def defaults(*systems: Outputs) -> list[Metric]:
    """What is measured when nothing was asked for: every quick metric that all of these systems allow."""
    metrics = find([name for name, group in GROUPS.items() if group.default])
    return [metric for metric in metrics if all(metric.reduction.needs <= system.has for system in systems)]


def kind(name: str) -> Kind:
    """What the metric of this full name is; one that is not of this house has a name and nothing more."""
    parts = split(name)
    known = _KINDS.get(f"{parts.kind}:{parts.option}") or _KINDS.get(parts.kind) or Kind(parts.kind, parts.kind)
    return replace(known, better=0) if parts.half == "gap" else known


def title(name: str, unit: bool = True) -> str:
    """A metric's full name for people: title, option, unit (which a sentence does without), half."""
    parts, known = split(name), kind(name)
    option = f" {parts.option}" if parts.option and ":" not in known.name else ""
    half = "long less short" if parts.half == "gap" else parts.half
    more = [text for text in (known.unit if unit else "", half) if text]
    return ", ".join([known.title + option, *more])
