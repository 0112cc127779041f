"""Makes traces: what every step of an output attended to. ``runfiles/arrays.py`` keeps them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dwindle.data.example import Example
from dwindle.generation.generate import counted, prepared, search
from dwindle.generation.settings import DecodingSettings
from dwindle.models.codec import Batch, Codec
from dwindle.models.token_offsets import places
from dwindle.runfiles.arrays import Trace

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

FEW = 8
"""Number of items of a run that are traced: enough to see how it reads, in some hundred kB."""


def trace(
    model: "PreTrainedModel", codec: Codec, example: Example, settings: DecodingSettings
) -> Trace:
    """Decode one example and look at every step."""
    batch = codec.collate([codec.encode(example.input)])
    with prepared(model, settings):
        return traced(model, codec, example, batch, search(model, batch, settings, codec))


def traced(
    model: "PreTrainedModel", codec: Codec, example: Example, batch: Batch, sequences: "Tensor"
) -> Trace:
    """The trace of an output that exists: ``sequences`` (1, 1 + T) as ``generate`` gave them for
    ``batch``; of a decoder-only model, (1, P + T) with its prompt."""
    from dwindle.attaching.carrier import attended

    with counted(model):  # a plain model on the layers where a rule would be
        record = attended(model, batch, sequences)
    attention, weights = (rows[:, 0].mean(0).numpy() for rows in (record.attention, record.weights))
    steps = 1 + max(np.flatnonzero(attention.sum(1) > 0), default=0)  # rows after the end are zero
    tokens = codec.source_tokens(example.input)
    if len(tokens) != attention.shape[1]:  # an encoder that changes how many positions there are
        tokens = [f"position {s + 1}" for s in range(attention.shape[1])]
    first = 0 if model.config.is_encoder_decoder else batch["input_ids"].shape[1] - 1
    output = _written(codec, batch, sequences[:, first : first + 1 + steps].cpu())
    at = places(tokens, example.source) if example.image is None else [-1] * len(tokens)
    return Trace(example.id, example.source, tokens, at, output, attention[:steps], weights[:steps])


def _written(codec: Codec, batch: Batch, sequence: "Tensor") -> list[str]:
    """The text that each token adds, decoded prefix by prefix, as any codec can."""
    # A character of several bytes is complete with its last byte only.
    texts = [
        codec.decode(sequence[:, : t + 1], batch)[0].rstrip("\ufffd")
        for t in range(sequence.shape[1])
    ]
    added = []
    for before, after in pairwise(texts):
        same = next(
            (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before)
        )
        added.append(after[same:])
    return added


def traces(
    model: "PreTrainedModel",
    codec: Codec,
    examples: Sequence[Example],
    settings: DecodingSettings,
    count: int = FEW,
) -> list[Trace]:
    """The first few examples that have something to read."""
    readable = (
        example for example in examples if example.image is not None or example.source.strip()
    )
    return [
        trace(model, codec, example, settings)
        for example, _ in zip(readable, range(count), strict=False)
    ]
