"""``omissions``: what outputs of any system left out of their sources, by force-decoding them through a model.

Pairs stream through in batches: memory does not grow with their number. Knows no files.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dwindle.listening.heads import peaks
from dwindle.listening.listeners import Finding, Listeners
from dwindle.listening.readers import reader_of
from dwindle.listening.sound import SoundReader
from dwindle.listening.source import Reader, ReadSource, batches

if TYPE_CHECKING:
    from transformers import PreTrainedModel

AHEAD = 16
"""Batches that are sorted by length together."""

LEAST_SPEECH = 1.0
"""Seconds: words in a shorter stretch cannot be counted, and it is taken for speech."""

Pair = tuple[Any, str]
"""A source and an output."""


def omissions(
    model: "PreTrainedModel", tokenizer: Any, pairs: Iterable[Pair], listeners: Listeners, batch: int = 16
) -> Iterator[Finding]:
    """What each output left out of its source, in the order of the pairs.

    Args:
        model, tokenizer: those that the ``listeners`` were chosen with.
        pairs: sources, as ``listeners`` takes them, with an output each: of this model, of another, of a person.
        batch: pairs in one forward pass.
    """
    reader = reader_of(model, tokenizer)
    _check(reader, listeners)
    return _found(model, reader, pairs, listeners, batch)


def _check(reader: Reader, listeners: Listeners) -> None:
    if not listeners.tells:
        worth = ", ".join(f"{kind} {value:.2f}" for kind, value in listeners.auroc.items())
        raise ValueError(f"the heads of this model do not tell what was read (AUROC: {worth}): take another model")
    if tuple(reader.probe()) != listeners.probe or reader.unit != listeners.unit:
        raise ValueError("these listeners were chosen with another tokenizer: choose them again for this model")


def _found(
    model: "PreTrainedModel", reader: Reader, pairs: Iterable[Pair], listeners: Listeners, batch: int
) -> Iterator[Finding]:
    for some in batches(pairs, AHEAD * batch):
        order = sorted(range(len(some)), key=lambda n: len(some[n][0]))
        found: dict[int, Finding] = {}
        for numbers in batches(order, batch):
            found.update(zip(numbers, _judged(model, reader, [some[n] for n in numbers], listeners), strict=True))
        yield from (found[n] for n in range(len(some)))


def _judged(model: "PreTrainedModel", reader: Reader, pairs: list[Pair], listeners: Listeners) -> list[Finding]:
    sources = [reader.read(source) for source, _ in pairs]
    said = [n for n, (_, output) in enumerate(pairs) if output.strip() and sources[n].parts]
    silent = torch.zeros(len(listeners.heads), max(len(source.owner) for source in sources))
    heard = dict.fromkeys(range(len(pairs)), silent)  # of an empty output, nothing was heard
    if said:
        inputs, read, rows = reader.batch([sources[n] for n in said], [pairs[n][1] for n in said])
        heard.update(zip(said, peaks(model, listeners.heads, inputs, read, rows).cpu(), strict=True))
    texts = [source if isinstance(source, str) else "" for source, _ in pairs]
    found = [listeners.judged(source, heard[n], texts[n]) for n, source in enumerate(sources)]
    if not isinstance(reader, SoundReader) or not listeners.words_per_second:
        return found
    return [_of_speech(reader, sources[n], heard[n], one, listeners) for n, one in enumerate(found)]


def _of_speech(reader: SoundReader, source: ReadSource, heard: Tensor, found: Finding, listeners: Listeners) -> Finding:
    """The finding without marks on music or noise: in such stretches there is nothing to leave out."""
    long = [(span.start, span.end) for span in found.spans if span.end - span.start >= LEAST_SPEECH]
    if not long:
        return found
    rates = reader.rates(source, long)
    other = [span for span, rate in zip(long, rates, strict=True) if rate < listeners.words_per_second]
    return listeners.judged(source.without(other), heard) if other else found
