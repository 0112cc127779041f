"""``omissions``: finds what outputs of any system left out of their sources, by force-decoding them
through a model.

Pairs stream through in batches: memory does not grow with their number. Knows no files.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dwindle.auditing.contrast import contrasted
from dwindle.auditing.heads import peaks
from dwindle.auditing.listeners import Finding, Listeners
from dwindle.auditing.readers import reader_of
from dwindle.auditing.reverse import Reverse
from dwindle.auditing.sound import SoundReader
from dwindle.auditing.source import Reader, ReadSource
from dwindle.auditing.text import TextReader
from dwindle.bulk.batches import batches, together

if TYPE_CHECKING:
    from transformers import PreTrainedModel

AHEAD = 16
"""Number of batches whose pairs are sorted by length together."""

LEAST_SPEECH = 1.0
"""Length in seconds from which the words of a stretch can be counted; a shorter one is taken for
speech."""

Pair = tuple[Any, str]
"""A source and an output."""


def omissions(
    model: "PreTrainedModel",
    tokenizer: Any,
    pairs: Iterable[Pair],
    listeners: Listeners,
    batch: int = 16,
    reverse: Reverse | None = None,
) -> Iterator[Finding]:
    """Find what each output left out of its source.

    Args:
        model, tokenizer: those that the ``listeners`` were chosen with.
        pairs: sources, as ``listeners`` takes them, with an output each: of this model, of another,
            of a person.
        listeners: those that ``dwindle.listeners`` chose for this model.
        batch: pairs in one forward pass.
        reverse: the second opinion, if the ``listeners`` were chosen with one.

    Returns:
        One finding a pair, in the order of the pairs.

    Example:
        >>> for found in dwindle.omissions(translator, tokenizer, [(source, "mayor bridge")], ears):
        ...     print(found.alarm)
        True
    """
    reader = reader_of(model, tokenizer)
    _check(reader, listeners, reverse)
    return _found(_Ears(model, reader, listeners, reverse), pairs, batch)


@dataclass(frozen=True)
class _Ears:
    """The model, the reader and the listeners by which pairs are judged."""

    model: "PreTrainedModel"
    reader: Reader
    listeners: Listeners
    reverse: Reverse | None


def _check(reader: Reader, listeners: Listeners, reverse: Reverse | None) -> None:
    if not listeners.tells:
        worth = ", ".join(f"{kind} {value:.2f}" for kind, value in listeners.auroc.items())
        raise ValueError(
            f"the heads of this model do not show what was read (AUROC: {worth}): take another "
            "model"
        )
    if tuple(reader.probe()) != listeners.probe or reader.unit != listeners.unit:
        raise ValueError(
            "these listeners were chosen with another tokenizer: choose them again for this model"
        )
    if listeners.reverse and not reverse:
        raise ValueError(
            "these listeners need a second opinion: pass the reverse model that they were chosen "
            "with"
        )
    if (reverse.probe() if reverse else ()) != listeners.reverse:
        raise ValueError(
            "these listeners were chosen without this reverse model: choose them again with it"
        )


def _found(ears: _Ears, pairs: Iterable[Pair], batch: int) -> Iterator[Finding]:
    for some in batches(pairs, AHEAD * batch):
        yield from together(
            some, batch, lambda pair: _length(*pair), lambda few: _judged(ears, few)
        )


def _length(source: Any, output: str) -> tuple[int, str, int]:
    """Key that sorts pairs by length and keeps equal sources together, so that each is encoded
    once."""
    return len(source), source if isinstance(source, str) else "", len(output)


def _judged(ears: _Ears, pairs: list[Pair]) -> list[Finding]:
    reader, listeners = ears.reader, ears.listeners
    texts = [source if isinstance(source, str) else "" for source, _ in pairs]
    outputs = [output for _, output in pairs]
    sources = [reader.read(source) for source, _ in pairs]
    said = [n for n, output in enumerate(outputs) if output.strip() and sources[n].parts]
    silent = torch.zeros(len(listeners.heads), max(len(source.owner) for source in sources))
    heard = dict.fromkeys(range(len(pairs)), silent)  # an empty output read nothing of its source
    if said:
        inputs, read, rows = reader.batch([sources[n] for n in said], [outputs[n] for n in said])
        heard.update(
            zip(said, peaks(ears.model, listeners.heads, inputs, read, rows).cpu(), strict=True)
        )
    second: list[Tensor | None] = [None] * len(pairs)
    if ears.reverse:
        sources = [s.cut(ears.reverse.reach(text)) for s, text in zip(sources, texts, strict=True)]
        second = list(ears.reverse.surprise(sources, texts, outputs))
    scores = [listeners.scores(source, heard[n], second[n]) for n, source in enumerate(sources)]
    if listeners.contrast and isinstance(reader, TextReader):
        scores = contrasted(reader, pairs, [source.parts for source in sources], scores)
    found = [
        replace(
            listeners.judged(source, heard[n], texts[n], second[n], scores[n]), output=outputs[n]
        )
        for n, source in enumerate(sources)
    ]
    if not isinstance(reader, SoundReader) or not listeners.words_per_second:
        return found
    return [_of_speech(reader, sources[n], heard[n], one, listeners) for n, one in enumerate(found)]


def _of_speech(
    reader: SoundReader, source: ReadSource, heard: Tensor, found: Finding, listeners: Listeners
) -> Finding:
    """The finding without marks on music or noise, where there is nothing to leave out."""
    long = [(span.start, span.end) for span in found.spans if span.end - span.start >= LEAST_SPEECH]
    if not long:
        return found
    rates = reader.rates(source, long)
    other = [
        span for span, rate in zip(long, rates, strict=True) if rate < listeners.words_per_second
    ]
    return (
        replace(listeners.judged(source.without(other), heard), output=found.output)
        if other
        else found
    )
