"""``repair``: outputs that leave less out, chosen among the best that a beam search finds.

A hypothesis is worth its log-probability per token, less a share of what the listeners say it leaves out. Nothing is
written that the model would not write: it is a choice, not another way to decode. Knows texts only.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dwindle.listening.audit import omissions
from dwindle.listening.listeners import Listeners
from dwindle.listening.readers import reader_of
from dwindle.listening.source import batches
from dwindle.listening.text import TextReader

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WEIGHT = 0.2
"""Of an item's score, beside a log-probability per token. Chosen on newstest 2019 (docs/OMISSIONS.md)."""


def repair(
    model: "PreTrainedModel",
    tokenizer: Any,
    sources: Sequence[str],
    listeners: Listeners,
    beams: int = 8,
    weight: float = WEIGHT,
    batch: int = 8,
) -> list[str]:
    """The model's outputs of ``sources``, each the best of ``beams`` hypotheses once what it leaves out is counted.

    Args:
        model, tokenizer: those that the ``listeners`` were chosen with; a text-to-text model.
        weight: how much leaving out counts; 0 gives the plain beam search.
        batch: sources in one search.
    """
    reader = reader_of(model, tokenizer)
    if not isinstance(reader, TextReader):
        raise ValueError(f"{type(model).__name__} reads sound: repair is for models of texts")
    if beams < 2:
        raise ValueError(f"beams={beams}: there is nothing to choose among; pass 2 or more")
    chosen: list[str] = []
    for some in batches(sources, batch):
        for source, hypotheses in zip(some, reader.best(some, beams), strict=True):
            pairs = [(source, text) for text, _ in hypotheses]
            found = omissions(model, tokenizer, pairs, listeners, beams)
            worth = [likely - weight * (one.score or 0.0) for (_, likely), one in zip(hypotheses, found, strict=True)]
            chosen.append(hypotheses[worth.index(max(worth))][0])
    return chosen
