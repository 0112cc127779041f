"""A format of checkpoints: its name, the test that recognises it, and the way it becomes a model
and its codec. Knows no format.

A model is made in two steps. First without numbers, on PyTorch's meta device: there its weights are
compared with those of the file, so that no memory is taken for sizes that only a setting or a lone
matrix claims. Then the file's own tensors become its weights; they are not copied.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from dwindle.models.codec import Codec
from dwindle.models.library import bars_on_terminals

_MOST_LAYERS = 1000
_SLACK = 100_000_000
"""Number of bytes that a model may have beyond twice its file, for positions that are computed."""


@dataclass(frozen=True)
class Checkpoint:
    """A file of weights that was read, not yet understood."""

    file: Path
    content: Mapping[str, Any]
    source_lang: str | None = None
    target_lang: str | None = None
    """The languages of a translation model, where its file does not say them."""

    def beside(self, *names: str, what: str) -> Path:
        """The first of these files (or patterns) in the checkpoint's folder. An error says ``what``
        is missing if there is none."""
        folder = self.file.parent
        for name in names:
            if found := sorted(file for file in folder.glob(name) if file.is_file()):
                return found[0]
        raise ValueError(
            f"{folder} has no {' or '.join(names)}, {what}: put it beside {self.file.name}"
        )

    def release(self) -> None:
        """Forget the tensors, which somebody else has now."""
        for part in (self.content, *self.content.values()):
            if isinstance(part, MutableMapping) and any(
                isinstance(value, Tensor) for value in part.values()
            ):
                part.clear()


@dataclass(frozen=True)
class Opened:
    """A checkpoint as a model with its codec, and a line that says what it was."""

    model: PreTrainedModel
    codec: Codec
    about: str


@dataclass(frozen=True)
class Format:
    """One kind of checkpoint."""

    name: str
    fits: Callable[[Checkpoint], bool]
    """Test that recognises a checkpoint of this kind by the names in it."""
    open: Callable[[Checkpoint], Opened]


def text(file: Path) -> str:
    """The text of a dictionary or vocabulary."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not UTF-8: get it again") from None


def made(
    kind: type[PreTrainedModel],
    config: PretrainedConfig,
    weights: dict[str, Tensor],
    checkpoint: Checkpoint,
) -> PreTrainedModel:
    """The model of these ``weights``: exactly those that it learns must be there, in shape.

    ``weights`` and the checkpoint's tensors are used up, so that they are not in memory beside the
    model.
    """
    file = checkpoint.file
    with torch.device("meta"):
        twin = kind(config)
    twin.tie_weights()  # 5.0 leaves that away on this device
    # shared weights are named once
    own = {name: p for name, p in twin.named_parameters() if p.requires_grad}
    if odd := sorted(own.keys() ^ weights.keys()):
        raise mismatch(file, f"{'no' if odd[0] in own else 'a'} {odd[0]}")
    if odd := [name for name, p in own.items() if p.shape != weights[name].shape]:
        raise mismatch(file, f"{odd[0]} in the shape {tuple(weights[odd[0]].shape)}")
    size = sum(x.numel() * x.element_size() for x in (*twin.parameters(), *twin.buffers()))
    if size > 2 * _stored(file) + _SLACK:
        raise mismatch(file, f"{size:,} bytes of weights in {_stored(file):,}")
    checkpoint.release()
    whole = {name: _whole(weights.pop(name)) for name in list(weights)}
    with bars_on_terminals():
        model = kind.from_pretrained(None, config=config, state_dict=whole, dtype=torch.float32)
    # without a folder the library calls it "None"
    model.name_or_path = model.config.name_or_path = str(file)
    # the library takes computed positions for weights to learn
    for name, p in twin.named_parameters():
        model.get_parameter(name).requires_grad_(p.requires_grad)
    return model


def _stored(file: Path) -> int:
    """Bytes of a checkpoint, of which TensorFlow's are in several files."""
    return sum(part.stat().st_size for part in {file, *file.parent.glob(f"{file.stem}.data-*")})


def _whole(value: Tensor) -> Tensor:
    """A tensor in the model's precision that is not a view of a larger one, which would stay in
    memory."""
    value = value.float()
    part = (
        not value.is_contiguous()
        or value.untyped_storage().nbytes() > value.numel() * value.element_size()
    )
    return value.clone(memory_format=torch.contiguous_format) if part else value


def layers(names: Iterable[str], prefix: str, file: Path) -> int:
    """Number of layers, whose weights are called ``PREFIX0.NAME``, ``PREFIX1.NAME``, and so on."""
    numbers = {
        name.removeprefix(prefix).partition(".")[0] for name in names if name.startswith(prefix)
    }
    count = len(numbers)
    if not 0 < count <= _MOST_LAYERS or numbers != {str(n) for n in range(count)}:
        raise mismatch(file, f"layers that are not counted 0, 1, 2, ... ({prefix})")
    return count


def weight(weights: Mapping[str, Tensor], name: str, file: Path) -> Tensor:
    """One of the weights, which must be there."""
    if name not in weights:
        raise mismatch(file, f"no {name}")
    return weights[name]


def mismatch(file: Path, what: str) -> ValueError:
    return ValueError(f"{file} has {what}: it is of another version than those that are known here")
