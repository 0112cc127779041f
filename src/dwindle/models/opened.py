"""``opened``: any saved model with a codec to read text with, ours or anybody's. For looking, not for training."""

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedModel

from dwindle.models import build
from dwindle.models.bars import bars_on_terminals
from dwindle.models.codec import Codec
from dwindle.models.loading import from_pretrained
from dwindle.models.prompted import PromptCodec
from dwindle.models.subword import SubwordCodec

_LONGEST = 1024
"""Source tokens, for a model that has no limit of its own."""


def opened(name: str | Path) -> tuple[PreTrainedModel, Codec]:
    """The model of a run, of ``save``, of ``save_pretrained`` or of the hub, with its rule, and its codec."""
    folder = Path(name)
    if (folder / "model" / "config.json").is_file():
        folder = folder / "model"
    if build.is_saved(folder):
        return build.load(folder)
    if not folder.exists() and (folder.is_absolute() or str(name).startswith((".", "~")) or len(folder.parts) > 2):
        raise ValueError(f"there is no {name}: name the folder of a run or of a saved model, or a name on the hub")
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise ValueError(f"{folder} is neither a saved model nor a run with one: it has no config.json")
    try:
        with bars_on_terminals():
            model, tokenizer = from_pretrained(name), AutoTokenizer.from_pretrained(name)
    except OSError as error:
        why = str(error).strip().partition("\n")[0]
        raise ValueError(f"{name} is not a model's folder, and could not be loaded from the hub: {why}") from None
    if model.main_input_name != "input_ids":
        raise ValueError(f"{name} reads sounds or images ({model.main_input_name}), not text: take a model of texts")
    limit = min(_length(model.config), int(tokenizer.model_max_length), _LONGEST)
    if model.config.is_encoder_decoder:
        return model.eval(), SubwordCodec(tokenizer, limit, limit, separator=None)
    return model.eval(), PromptCodec(tokenizer, limit // 2, limit // 2, separator=None)  # prompt and output share it


def _length(config: Any) -> int:
    """How many positions the encoder has."""
    encoder = getattr(config, "encoder", config)
    return int(getattr(encoder, "max_position_embeddings", None) or _LONGEST)
