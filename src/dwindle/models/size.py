"""The number of parameters of a model, before it is built or fetched."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open

from dwindle.models import presets
from dwindle.models.pointer_generator.config import PointerGeneratorConfig
from dwindle.models.pointer_generator.model import PointerGenerator
from dwindle.models.settings import ModelSettings
from dwindle.models.top_down import TopDown, TopDownConfig


@dataclass(frozen=True)
class _Words:
    """Stands for a vocabulary of which only the size is known."""

    size: int
    pad_token_id: int = 0
    bos_token_id: int = 1
    eos_token_id: int = 2

    def __len__(self) -> int:
        return self.size


def parameters(settings: ModelSettings, width: int = 0) -> int | None:
    """Number of parameters of a new model with its largest vocabulary, or of the folder that it
    starts from.

    None for a name on the hub. ``width``: the width of an image's features. Nothing is computed:
    the weights of a new model are only described.
    """
    if settings.start is not None:
        return _saved(Path(settings.start)) if Path(settings.start).is_dir() else None
    numbers = presets.shape(settings.kind, settings.size, settings.dropout)
    words = _Words(settings.vocabulary)
    longest = max(settings.source_length, settings.target_length)
    with torch.device("meta"):
        if settings.kind == "pointer-generator":
            model = PointerGenerator(
                PointerGeneratorConfig(
                    vocab_size=len(words), coverage=settings.coverage, copy=settings.copy, **numbers
                )
            )
        elif settings.kind == "top-down":
            model = TopDown(TopDownConfig(vocab_size=len(words), feature_size=width, **numbers))
        else:
            model = presets.new(settings.kind, settings.size, settings.dropout, words, longest)
    model.tie_weights()  # 5.0 leaves that away on this device
    return int(model.num_parameters())


def _saved(folder: Path) -> int | None:
    """The count of numbers in a folder's safetensors, by their headers; None without any."""
    total = 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as weights:
            shapes = (weights.get_slice(name).get_shape() for name in weights.keys())  # noqa: SIM118
            total += sum(torch.Size(shape).numel() for shape in shapes)
    return total or None
