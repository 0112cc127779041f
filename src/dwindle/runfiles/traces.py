"""The file of traces, ``traces.npz``: for a few outputs, what every step attended to.

It holds for the k-th item ``k.id``, ``k.text`` (the source), ``k.output`` (T,) and ``k.source``
(S,) strings, ``k.places`` (S,) as in the coverage file, and ``k.attention`` and ``k.weights`` (T,
S) in half precision, mean of heads and layers. ``count`` says how many. How a trace is made is the
business of ``dwindle.generation.tracing``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dwindle.runfiles import arrays as archive

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


def write(path: Path, made: Iterable[Trace]) -> None:
    """Write a file of traces, whole or not at all."""
    arrays: dict[str, Any] = {}
    count = 0
    for count, one in enumerate(made, 1):
        k = count - 1
        arrays |= {f"{k}.id": np.array(one.id), f"{k}.text": np.array(one.text)}
        arrays |= {f"{k}.source": np.array(one.source), f"{k}.output": np.array(one.output)}
        arrays |= {f"{k}.places": np.array(one.places, dtype=np.int32)}
        arrays |= {
            f"{k}.attention": one.attention.astype(np.float16),
            f"{k}.weights": one.weights.astype(np.float16),
        }
    archive.write(path, {"count": np.array(count), **arrays})


def read(path: str | Path) -> list[Trace]:
    """The traces of a file."""
    remedy = "generate again"
    file = archive.read(path, "a file of traces", remedy)
    try:
        return [_one(file, k) for k in range(int(file["count"]))]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a file of traces ({error}): {remedy}") from None


def _one(file: dict[str, npt.NDArray[Any]], k: int) -> Trace:
    attention, weights = (
        file[f"{k}.{name}"].astype(np.float32) for name in ("attention", "weights")
    )
    source, at, output = (file[f"{k}.{name}"].tolist() for name in ("source", "places", "output"))
    if (
        attention.shape != (len(output), len(source))
        or attention.shape != weights.shape
        or len(at) != len(source)
    ):
        raise ValueError(
            f"item {k} has {len(output)} steps, {len(source)} positions, rows {attention.shape}"
        )
    return Trace(
        str(file[f"{k}.id"]), str(file[f"{k}.text"]), source, at, output, attention, weights
    )
