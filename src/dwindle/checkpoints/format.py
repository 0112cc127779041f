"""What every format is: a name, how it is known, and how it becomes a model and its codec. Knows no format."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from dwindle.models.codec import Codec


@dataclass(frozen=True)
class Checkpoint:
    """A file of weights that was read, not yet understood."""

    file: Path
    content: Mapping[str, Any]

    def beside(self, *names: str, what: str) -> Path:
        """The first of these files (or patterns) in the checkpoint's folder. ``what`` says what it is, if none is."""
        folder = self.file.parent
        for name in names:
            if found := sorted(file for file in folder.glob(name) if file.is_file()):
                return found[0]
        raise ValueError(f"{folder} has no {' or '.join(names)}, {what}: put it beside {self.file.name}")


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
    """Whether a checkpoint is of this kind, by the names in it."""
    open: Callable[[Checkpoint], Opened]


def text(file: Path) -> str:
    """What a dictionary or vocabulary holds."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not UTF-8: get it again") from None


def fill(model: PreTrainedModel, weights: Mapping[str, Tensor], file: Path) -> None:
    """Put ``weights`` into ``model``: all that it learns must be there, in its shape, and nothing else."""
    own = {name: p for name, p in model.named_parameters() if p.requires_grad}  # weights that are shared: once
    if odd := sorted(own.keys() ^ weights.keys()):
        raise mismatch(file, f"{'no' if odd[0] in own else 'a'} {odd[0]}")
    if odd := [name for name, p in own.items() if p.shape != weights[name].shape]:
        raise mismatch(file, f"{odd[0]} in the shape {tuple(weights[odd[0]].shape)}")
    with torch.no_grad():
        for name, p in own.items():
            p.copy_(weights[name])
    model.eval()


def weight(weights: Mapping[str, Tensor], name: str, file: Path) -> Tensor:
    """One of the weights, which must be there."""
    if name not in weights:
        raise mismatch(file, f"no {name}")
    return weights[name]


def mismatch(file: Path, what: str) -> ValueError:
    return ValueError(f"{file} has {what}: it is of another version than those that are known here")
