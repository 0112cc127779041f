"""``reader_of``: the reader that fits a model."""

from typing import TYPE_CHECKING, Any

from dwindle.auditing.sound import SoundReader
from dwindle.auditing.source import Reader
from dwindle.auditing.text import TextReader

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def reader_of(model: "PreTrainedModel", tokenizer: Any) -> Reader:
    """The reader of ``model``. ``tokenizer`` is its tokenizer, or for speech its processor."""
    if not model.config.is_encoder_decoder:
        raise ValueError(
            f"{type(model).__name__} has no encoder, so its source is not separate: take an "
            "encoder-decoder"
        )
    if model.main_input_name != "input_features":
        return TextReader(model, tokenizer)
    if not hasattr(tokenizer, "feature_extractor"):
        raise ValueError(
            f"{type(model).__name__} reads sound: pass its processor (AutoProcessor) as the "
            "tokenizer"
        )
    return SoundReader(model, tokenizer)
