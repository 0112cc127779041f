"""``opened``: opens whatever holds a model, for use and not for training.

A name is the folder of a run, of ``save`` (our models, imported checkpoints), of
``save_pretrained``, or a name on the hub. Knows what reads the sources of each; what else lies
beside a model (its listeners) is known by its own room.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoProcessor, AutoTokenizer, PreTrainedModel

from dwindle.models import build
from dwindle.models.codec import Codec
from dwindle.models.library import bars_on_terminals
from dwindle.models.loading import from_pretrained
from dwindle.models.place import place
from dwindle.models.subword import PromptCodec, SubwordCodec

_LONGEST = 1024
"""Largest number of source tokens for a model that has no limit of its own."""


@dataclass(frozen=True)
class OpenModel:
    """A model in eval mode, with the rule it was saved with."""

    place: str | Path
    """The folder of its weights, or its name on the hub."""
    model: PreTrainedModel
    codec: Codec | None
    """Its codec; None for a library model of sounds or images."""

    @property
    def reader(self) -> Any:
        """The library's tokenizer, or the processor of a speech model."""
        if isinstance(self.codec, SubwordCodec):
            return self.codec.tokenizer
        if self.codec is not None:
            raise ValueError(
                f"{self.place} has a vocabulary of its own: take an encoder-decoder with a "
                "tokenizer of the library"
            )
        speech = self.model.main_input_name == "input_features"
        return _from_library(AutoProcessor if speech else AutoTokenizer, self.place)


def opened(name: str | Path) -> OpenModel:
    """The model of a name, and what reads its sources."""
    where = place(name)
    if isinstance(where, Path) and build.is_saved(where):
        model, codec = build.load(where)
        return OpenModel(where, model.eval(), codec)
    model = _from_library(None, where).eval()
    return OpenModel(
        where, model, _codec(model, where) if model.main_input_name == "input_ids" else None
    )


def _from_library(kind: Any, place: str | Path) -> Any:
    """A model (``kind`` None), a tokenizer or a processor of the library."""
    try:
        with bars_on_terminals():
            return from_pretrained(place) if kind is None else kind.from_pretrained(place)
    except OSError as error:
        why = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"{place} is not a model's folder, and could not be loaded from the hub: {why}"
        ) from None


def _codec(model: PreTrainedModel, place: str | Path) -> Codec:
    tokenizer = _from_library(AutoTokenizer, place)
    limit = min(_length(model.config), int(tokenizer.model_max_length), _LONGEST)
    if model.config.is_encoder_decoder:
        return SubwordCodec(tokenizer, limit, limit, separator=None)
    # prompt and output share the positions
    return PromptCodec(tokenizer, limit // 2, limit // 2, separator=None)


def _length(config: Any) -> int:
    """Number of positions of the encoder."""
    encoder = getattr(config, "encoder", config)
    return int(getattr(encoder, "max_position_embeddings", None) or _LONGEST)
