"""Every metric by name. A name is a group (``rouge``) or a member of one (``rouge1``), with an
option after a colon (``rouge:recall``, ``bleu:moses-de``, ``mover:PATH``)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from dwindle.metrics import (
    bleu,
    chrf,
    cider,
    coco_bleu,
    copied,
    entropy,
    invented,
    layout,
    length,
    moverscore,
    repetition,
    rouge,
    world,
)
from dwindle.metrics.kind import Kind, split
from dwindle.metrics.score import WRITTEN, Metric, objection
from dwindle.runfiles.outputs import Outputs


@dataclass(frozen=True)
class Group:
    """Metrics that share a reduction: their kinds, and how to build them from an option."""

    build: Callable[[str], list[Metric]]
    kinds: tuple[Kind, ...]
    asks: str = ""
    """Thing that the option must name, if the group needs one; else empty."""
    default: bool = False
    """True if it is measured wherever the outputs allow it, without being asked for."""


GROUPS = {
    "rouge": Group(rouge.metrics, rouge.KINDS, default=True),
    "bleu": Group(bleu.metrics, (bleu.KIND,)),
    "chrf": Group(chrf.metrics, (chrf.KIND,)),
    "coco-bleu": Group(coco_bleu.metrics, coco_bleu.KINDS),
    "cider": Group(cider.metrics, (cider.CIDER,)),
    "cider-d": Group(cider.metrics_d, (cider.CIDER_D,)),
    "mover": Group(moverscore.metrics, moverscore.KINDS, asks="an encoder"),
    "repetition": Group(repetition.metrics, repetition.KINDS, default=True),
    "novelty": Group(copied.novelty, copied.NOVELTY, default=True),
    "copied": Group(copied.metrics, (copied.SHARE, copied.LONGEST), default=True),
    "invented": Group(invented.metrics, (invented.NUMBERS, invented.NAMES)),
    "layout": Group(layout.metrics, layout.KINDS, default=True),
    "length": Group(
        length.metrics,
        (length.LENGTH, length.SENTENCES, length.RATIO, length.SOURCE),
        default=True,
    ),
    "entropy": Group(entropy.metrics, entropy.KINDS, default=True),
    "world": Group(world.metrics, world.KINDS, default=True),
}
_OWNERS = {kind.name: name for name, group in GROUPS.items() for kind in group.kinds}
_KINDS = {kind.name: kind for group in GROUPS.values() for kind in group.kinds}


def find(names: Sequence[str]) -> list[Metric]:
    """The metrics of these names, in order, each once. A member has its group's option."""
    found: dict[str, Metric] = {}
    for name in names:
        head, _, option = name.partition(":")
        owner = head if head in GROUPS else _OWNERS.get(head)
        if owner is None:
            near = get_close_matches(head, [*GROUPS, *_OWNERS], 1)
            hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(GROUPS)}"
            raise ValueError(f"no metric is called {head!r}: {hint}")
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


def ready(names: Sequence[str]) -> list[str]:
    """These names without those that lack a required option, such as ``mover`` alone."""
    return [name for name in names if ":" in name or not _asks(name)]


def waiting(names: Sequence[str]) -> list[str]:
    """A sentence for each name that lacks a required option and is therefore not measured."""
    asked = [name for name in names if name not in ready(names)]
    return [
        f"{name} is not measured: name {_asks(name)} with metrics.{name}=FOLDER" for name in asked
    ]


def _asks(name: str) -> str:
    owner = name if name in GROUPS else _OWNERS.get(name, "")
    return GROUPS[owner].asks if owner else ""


def defaults(*systems: Outputs) -> list[Metric]:
    """The default metrics: every quick one that all of these systems allow."""
    metrics = find([name for name, group in GROUPS.items() if group.default])
    there = frozenset.intersection(*(system.has for system in systems)) | WRITTEN
    found = [metric for metric in metrics if metric.reduction.needs <= there]
    return [metric for metric in found if not any(objection(system, metric) for system in systems)]


def kind(name: str) -> Kind:
    """The kind of the metric with this full name; an unknown metric has only its name."""
    parts = split(name)
    known = (
        _KINDS.get(f"{parts.kind}:{parts.option}")
        or _KINDS.get(parts.kind)
        or Kind(parts.kind, parts.kind)
    )
    return replace(known, better=0) if parts.half == "gap" else known


def with_arrow(name: str) -> str:
    """A metric's full name, with an arrow up or down if higher or lower is better."""
    return f"{name} {kind(name).arrow}".rstrip()


def title(name: str, unit: bool = True) -> str:
    """A metric's full name for people: title, option, unit (not in a sentence), half."""
    parts, known = split(name), kind(name)
    option = f" {parts.option}" if parts.option and ":" not in known.name else ""
    half = "long less short" if parts.half == "gap" else parts.half
    more = [text for text in (known.unit if unit else "", half) if text]
    return ", ".join([known.title + option, *more])
