"""Traces: for a few outputs, what every step attended to. One is made with the model; a file of them is read without.

The file, ``traces.npz`` beside the outputs, holds for the k-th item ``k.id``, ``k.text`` (the source), ``k.output``
(T,) and ``k.source`` (S,) strings, ``k.places`` (S,) as in the coverage file, and ``k.attention`` and ``k.weights``
(T, S) in half precision, mean of heads and layers. ``count`` says how many.
"""

import io
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dwindle.data.example import Example
from dwindle.generation.generate import counted, prepared, search
from dwindle.generation.parts import write_whole
from dwindle.generation.settings import DecodingSettings
from dwindle.models.codec import Batch, Codec
from dwindle.models.places import places

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

FILE = "traces.npz"
FEW = 8
"""How many items of a run are traced: a look at how it reads, at some hundred kB."""

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Trace:
    """One output, step by step. T steps, S source positions."""

    id: str
    text: str
    """The source."""
    source: list[str]
    """(S,): its tokens."""
    places: list[int]
    """(S,): where each stands in the text; -1 for one that does not."""
    output: list[str]
    """(T,): what each step wrote; joined they are the output. Special tokens write nothing."""
    attention: Array
    """(T, S): plain attention, mean of heads and layers."""
    weights: Array
    """(T, S): the weights that were used."""


def trace(model: "PreTrainedModel", codec: Codec, example: Example, settings: DecodingSettings) -> Trace:
    """Decode one example and look at every step."""
    batch = codec.collate([codec.encode(example.input)])
    with prepared(model, settings):
        return traced(model, codec, example, batch, search(model, batch, settings, codec))


def traced(model: "PreTrainedModel", codec: Codec, example: Example, batch: Batch, sequences: "Tensor") -> Trace:
    """The trace of an output that exists: ``sequences`` (1, 1 + T) as ``generate`` gave them for ``batch``."""
    from dwindle.models.attended import attended

    with counted(model):  # a plain model on the layers where a rule would be
        record = attended(model, batch, sequences)
    attention, weights = (rows[:, 0].mean(0).numpy() for rows in (record.attention, record.weights))
    steps = int((attention.sum(1) > 0).sum())  # rows after the end are zero
    tokens = codec.source_tokens(example.input)
    if len(tokens) != attention.shape[1]:  # an encoder that changes how many positions there are
        tokens = [f"position {s + 1}" for s in range(attention.shape[1])]
    output = _written(codec, batch, sequences[:, : 1 + steps].cpu())
    at = places(tokens, example.source) if example.image is None else [-1] * len(tokens)
    return Trace(example.id, example.source, tokens, at, output, attention[:steps], weights[:steps])


def _written(codec: Codec, batch: Batch, sequence: "Tensor") -> list[str]:
    """What each token adds to the text. Decoded prefix by prefix: any codec can do that, whatever its tokens are."""
    # A character of several bytes is no character before its last byte.
    texts = [codec.decode(sequence[:, : t + 1], batch)[0].rstrip("\ufffd") for t in range(sequence.shape[1])]
    added = []
    for before, after in pairwise(texts):
        same = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
        added.append(after[same:])
    return added


def traces(
    model: "PreTrainedModel", codec: Codec, examples: Sequence[Example], settings: DecodingSettings, count: int = FEW
) -> list[Trace]:
    """The first few examples that have something to read."""
    readable = (example for example in examples if example.image is not None or example.source.strip())
    return [trace(model, codec, example, settings) for example, _ in zip(readable, range(count), strict=False)]


def write(path: Path, made: Iterable[Trace]) -> None:
    """Write a file of traces, whole or not at all."""
    arrays: dict[str, Any] = {}
    count = 0
    for count, one in enumerate(made, 1):
        k = count - 1
        arrays |= {f"{k}.id": np.array(one.id), f"{k}.text": np.array(one.text)}
        arrays |= {f"{k}.source": np.array(one.source), f"{k}.output": np.array(one.output)}
        arrays |= {f"{k}.places": np.array(one.places, dtype=np.int32)}
        arrays |= {f"{k}.attention": one.attention.astype(np.float16), f"{k}.weights": one.weights.astype(np.float16)}
    file = io.BytesIO()
    np.savez_compressed(file, count=np.array(count), **arrays)
    write_whole(path, file.getvalue())


def read(path: str | Path) -> list[Trace]:
    """The traces of a file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return [_one(file, k) for k in range(int(file["count"]))]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a file of traces ({error}): make it again") from None


def _one(file: Any, k: int) -> Trace:
    attention, weights = (file[f"{k}.{name}"].astype(np.float32) for name in ("attention", "weights"))
    source, at, output = (file[f"{k}.{name}"].tolist() for name in ("source", "places", "output"))
    if attention.shape != (len(output), len(source)) or attention.shape != weights.shape or len(at) != len(source):
        raise ValueError(f"item {k} has {len(output)} steps, {len(source)} positions, rows {attention.shape}")
    return Trace(str(file[f"{k}.id"]), str(file[f"{k}.text"]), source, at, output, attention, weights)
