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
)
from dwindle.metrics.score import Metric


@dataclass(frozen=True)
class Family:
    """Metrics that are reduced together. ``members`` are the names without an option."""

    build: Callable[[str], list[Metric]]
    members: tuple[str, ...]
    options: str
    about: str


FAMILIES = {
    "rouge": Family(
        rouge.metrics,
        rouge.NAMES,
        "script, recall, porter, rouge-score",
        "ROUGE-1.5.5 F1; limited-length recall; variants",
    ),
    "bleu": Family(bleu.metrics, ("bleu",), "none, moses-LANG, +compound, ...", "sacrebleu; tokenised BLEU"),
    "cider": Family(cider.metrics, ("cider",), "words, plain", "CIDEr as the COCO tool prints it (that is CIDEr-D)"),
    "cider-d": Family(cider.metrics_d, ("cider-d",), "words", "the same under its own name"),
    "mover": Family(moverscore.metrics, moverscore.NAMES, "ENCODER (needed)", "MoverScore, 1- and 2-grams"),
    "repetition": Family(
        repetition.metrics,
        tuple(f"repetition{n}" for n in repetition.ORDERS),
        "micro",
        "duplicate n-grams, %",
    ),
    "novelty": Family(
        novelty.metrics, tuple(f"novelty{n}" for n in copied.ORDERS), "micro", "n-grams not in the source, %"
    ),
    "copied": Family(
        copied.metrics,
        ("copied-share", "copied-longest"),
        "micro",
        "words in spans of 3 or more from the source",
    ),
    "layout": Family(
        layout.metrics,
        ("layout1", "layout2", "layoutL", "layoutL-reverse"),
        "",
        "ROUGE with the first 3 sentences",
    ),
    "length": Family(length.metrics, ("length", "sentences"), "ratio", "words and sentences of an output"),
    "entropy": Family(
        entropy.metrics,
        ("entropy-raw", "entropy-raw-even", "entropy-effective", "entropy-effective-even"),
        "FILE.npz",
        "entropy of coverage, in nats and over log n",
    ),
}
DEFAULT = ("rouge", "repetition", "length")
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
