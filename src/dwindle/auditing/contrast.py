"""A closer look at the most suspicious words: is the output likelier without them?

A word is taken out of the source. An output that says it becomes less likely; one that left it out
stays as likely as it was, or becomes likelier. By Bayes' rule that ratio of likelihoods multiplies
the odds that the word was left out, so its logarithm is added to the score. Each word costs a
forward pass, so only the few with the highest scores are looked at. No other model is needed. Knows
texts only.
"""

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from dwindle.auditing.source import Part
from dwindle.auditing.text import TextReader
from dwindle.bulk.batches import together
from dwindle.data.script import is_unspaced

SUSPECTS = 5
"""Number of words of one source that get a closer look."""
_BATCH = 16


def contrasted(
    reader: TextReader,
    pairs: Sequence[tuple[str, str]],
    parts: Sequence[Sequence[Part]],
    scores: Sequence[Tensor],
) -> list[Tensor]:
    """The scores (P,) of the parts of each source, after a closer look at the highest of them.

    Args:
        reader: of the model whose attention gave the scores.
        pairs: sources and outputs.
        parts: of each source.
        scores: of these parts, (P,) for each source.
    """
    suspects = [_suspects(output, one) for (_, output), one in zip(pairs, scores, strict=True)]
    asked = [
        [(source, output), *((_without(source, parts[n][k]), output) for k in some)] if some else []
        for n, ((source, output), some) in enumerate(zip(pairs, suspects, strict=True))
    ]
    likely = iter(_likelihoods(reader, list(chain.from_iterable(asked))))
    found = []
    for one, some in zip(scores, suspects, strict=True):
        changed = one.clone()
        if some:
            whole = next(likely)
            changed[some] += torch.tensor([next(likely) - whole for _ in some], dtype=one.dtype)
        found.append(changed)
    return found


def _suspects(output: str, scores: Tensor) -> list[int]:
    """The parts that are looked at. Without an output, or without anything else in the source,
    there is no need."""
    if not output.strip() or len(scores) < 2:
        return []
    return scores.topk(min(SUSPECTS, len(scores) - 1)).indices.tolist()


def _without(source: str, part: Part) -> str:
    before, after = source[: int(part.start)].rstrip(), source[int(part.end) :].lstrip()
    return ("" if is_unspaced(source) else " ").join(filter(None, (before, after)))


def _likelihoods(reader: TextReader, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """The log-probability of each output, given its source; pairs of like length go together."""
    return together(
        pairs,
        _BATCH,
        lambda pair: (len(pair[1]), len(pair[0])),
        lambda some: reader.likelihood(
            [source for source, _ in some], [output for _, output in some]
        ),
    )
