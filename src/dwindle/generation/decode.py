"""``decode``: the outputs of a whole corpus, batch by batch. After a kill it resumes.

Long sources come first, alike in length (of characters: not every script has spaces), so that
batches have little padding and memory runs out early or never. Each batch becomes a part on disk;
shards (i of n) are processes that each decode a share, and the one that finds all parts there
writes the outputs. Everything that decides an output is in the
fingerprint: after a change of the model, the codec, the corpus or the settings, nothing is taken
from before.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dwindle.data import script
from dwindle.data.example import Example
from dwindle.generation.generate import counted, prepared, search
from dwindle.generation.resume import Decoded, Parts
from dwindle.generation.settings import DecodingSettings
from dwindle.models.codec import Codec
from dwindle.models.token_offsets import places
from dwindle.runfiles import arrays, names, outputs, whole
from dwindle.system import machine

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_READ = 8  # texts: two vocabularies differ in the first of them

Progress = Callable[[int], None]
"""Called with the number of items that were just finished."""


@dataclass(frozen=True)
class DecodingSummary:
    """Counts of a finished decoding, and the fingerprint of all that decided its outputs."""

    fingerprint: str
    items: int
    truncated: int
    """Number of sources that were longer than the model reads."""
    empty: int
    """Number of hypotheses without a word."""


def decode(
    model: "PreTrainedModel",
    codec: Codec,
    examples: Sequence[Example],
    settings: DecodingSettings,
    folder: Path,
    progress: Progress = lambda done: None,
    shard: tuple[int, int] | None = None,
    layers: int | None = None,
) -> DecodingSummary | None:
    """Write ``outputs.jsonl`` and ``coverage.npz`` of ``examples`` into ``folder``.

    Args:
        model: with its rule, if it has one; on the device to decode on. codec: the model's.
        examples: what to decode; ids must differ. settings: how to search. folder: of the run.
        progress: called with the number of items that were just finished, or found finished. shard:
        (i, n), the i-th of n shares, from 0; None: as launched, by torchrun or alone. layers: for a
        library model without a rule, on how many of its last layers coverage is
            counted; None: on those that a rule would have, so that models with and without one can
            be compared.

    Returns:
        The summary; None if other shards still have to finish, the last of which writes the files.
    """
    rank, shards = (machine.rank(), machine.processes()) if shard is None else shard
    if not 0 <= rank < shards:
        raise ValueError(
            f"shard {rank} of {shards} does not exist: they are numbered 0 to {shards - 1}"
        )
    fingerprint, order = _survey(model, codec, examples, settings, layers)
    folder.mkdir(parents=True, exist_ok=True)
    mine = order[rank::shards]
    parts = Parts(folder, fingerprint)
    if (summary := _finished(folder, fingerprint)) is not None:
        parts.remove()
        progress(len(mine))
        return summary
    done = parts.indices()
    todo = [index for index in mine if index not in done]
    progress(len(mine) - len(todo))
    with prepared(model, settings, layers):
        for indices in _batches(todo, settings.batch_size):
            parts.add(_decoded(model, codec, examples, indices, settings, layers))
            progress(len(indices))
    try:
        if len(parts.indices()) < len(examples):
            return None
        return _merged(parts, codec, examples, folder, fingerprint)
    # another shard finished at the same moment, wrote everything and cleared up
    except FileNotFoundError:
        if (summary := _finished(folder, fingerprint)) is None:
            raise
        return summary


def _batches(indices: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(indices), size):
        yield indices[start : start + size]


def _decoded(
    model: "PreTrainedModel",
    codec: Codec,
    examples: Sequence[Example],
    indices: list[int],
    settings: DecodingSettings,
    layers: int | None,
) -> list[Decoded]:
    """One batch. A text without a character is not shown to the model: its output is empty."""
    from dwindle.attaching.carrier import attended
    from dwindle.generation.search import real_positions

    empty = [i for i in indices if examples[i].image is None and not examples[i].source.strip()]
    nothing = np.zeros((0, 0), dtype=np.float32)
    items = [Decoded(i, "", False, nothing, nothing) for i in empty]
    read = [i for i in indices if i not in empty]
    if not read:
        return items
    rows = [codec.encode(examples[i].input) for i in read]
    batch = codec.collate(rows)
    sequences = search(model, batch, settings, codec)
    with counted(model, layers):
        seen = attended(model, batch, sequences)
    texts = codec.decode(sequences.cpu(), batch)
    real = real_positions(batch.get("attention_mask"), seen.coverage[0])
    for n, i in enumerate(read):
        raw, effective = (x[:, n, real[n]].numpy() for x in (seen.coverage, seen.effective))
        items.append(Decoded(i, texts[n], rows[n]["cut"], raw, effective))
    return items


def _survey(
    model: "PreTrainedModel",
    codec: Codec,
    examples: Sequence[Example],
    settings: DecodingSettings,
    layers: int | None,
) -> tuple[str, list[int]]:
    """The fingerprint of all that decides the outputs, and the items, longest source first."""
    if not len(examples):
        raise ValueError("there is nothing to decode: the corpus has no examples")
    print_ = hashlib.blake2b(digest_size=12)
    deciding = {k: v for k, v in asdict(settings).items() if k != "batch_size"}
    told = [deciding, layers, _lasting(model.config.to_dict()), *_readings(codec, examples)]
    print_.update(json.dumps(told, sort_keys=True, default=str).encode())
    for name, weight in model.state_dict().items():
        print_.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
        print_.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    lengths, ids = [], set()
    for example in examples:
        told = [example.id, example.source, example.references, example.gold, repr(example.image)]
        print_.update(json.dumps(told, sort_keys=True).encode())
        lengths.append(len(example.source) if example.image is None else example.image.shape[0])
        ids.add(example.id)
    if len(ids) < len(examples):
        raise ValueError(
            f"{len(examples)} examples have {len(ids)} ids: give every example its own"
        )
    return print_.hexdigest(), sorted(range(len(examples)), key=lambda i: (-lengths[i], i))


def _lasting(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a config that is the same before a model is saved and after it is loaded."""
    passing = ("dtype", "transformers_version")
    kept = {k: v for k, v in config.items() if not str(k).startswith("_") and k not in passing}
    return {k: _lasting(v) if isinstance(v, dict) else v for k, v in kept.items()}


def _readings(codec: Codec, examples: Sequence[Example]) -> list[Any]:
    """A codec's settings, and the first texts encoded by it. (Loading changes its files.)"""
    texts = [e.source for e in examples[:_READ] if e.image is None and e.source.strip()]
    rows = [codec.encode(text) for text in texts]
    plain = {k: v for k, v in vars(codec).items() if isinstance(v, str | int | float)}
    return [type(codec).__name__, plain, rows]


def _finished(folder: Path, fingerprint: str) -> DecodingSummary | None:
    if not all(
        (folder / name).is_file() for name in (names.DECODING, names.OUTPUTS, names.COVERAGE)
    ):
        return None
    summary = _summary(folder / names.DECODING)
    return summary if summary.fingerprint == fingerprint else None


def _summary(path: Path) -> DecodingSummary:
    remedy = "delete it, and the outputs are decoded again"
    try:
        return DecodingSummary(**whole.read_json(path, remedy))
    except TypeError:
        raise ValueError(f"{path} is not the summary of a decoding: {remedy}") from None


def _merged(
    parts: Parts, codec: Codec, examples: Sequence[Example], folder: Path, fingerprint: str
) -> DecodingSummary:
    """Write all parts as two files and the summary last; then remove the parts."""
    items = parts.read()
    if len(items) < len(examples):
        raise FileNotFoundError(f"{parts.folder} had all items and has lost some: decode once more")
    written = (
        output(example, parted(items[i].hypothesis, example.references))
        for i, example in enumerate(examples)
    )
    outputs.write(folder / names.OUTPUTS, written, parts.folder)
    covered = {example.id: _columns(items, i) for i, example in enumerate(examples)}
    arrays.write_coverage(
        folder / names.COVERAGE, covered, _places(codec, examples, covered), parts.folder
    )
    truncated = sum(item.truncated for item in items.values())
    empty = sum(not item.hypothesis.strip() for item in items.values())
    summary = DecodingSummary(fingerprint, len(examples), truncated, empty)
    whole.write_json(folder / names.DECODING, asdict(summary), parts.folder)
    parts.remove()
    return summary


def parted(hypothesis: str, references: Sequence[str]) -> str:
    """A text with one sentence a line, if the references have that form and the model writes single
    lines: scores by sentences need it."""
    several = any("\n" in reference for reference in references)
    return "\n".join(script.sentences(hypothesis)) if several and hypothesis.strip() else hypothesis


def output(example: Example, hypothesis: str) -> outputs.Item:
    """The output for an example, with everything that the example says."""
    extra = {} if example.gold is None else {"gold": example.gold}
    return outputs.Item(example.id, hypothesis, example.references, example.source, extra=extra)


def _places(
    codec: Codec,
    examples: Sequence[Example],
    covered: dict[str, tuple[arrays.Array, arrays.Array]],
) -> dict[str, list[int]] | None:
    """Position in its source of each column's token; None for images, whose columns are regions."""
    if any(example.image for example in examples):
        return None
    found = {}
    for example in examples:
        columns = covered[example.id][0].shape[1]
        at = (
            places(codec.source_tokens(example.source), example.source)
            if example.source.strip()
            else []
        )
        # an encoder may change how many there are
        found[example.id] = at if len(at) == columns else [-1] * columns
    return found


def _columns(items: dict[int, Decoded], index: int) -> tuple[arrays.Array, arrays.Array]:
    """Raw and effective coverage (L, S) of an item; without a source, one empty position."""
    item = items[index]
    if item.raw.size:
        return item.raw, item.effective
    layers = max(1, *(len(other.raw) for other in items.values()), 1)
    return np.zeros((layers, 1), dtype=np.float32), np.zeros((layers, 1), dtype=np.float32)
