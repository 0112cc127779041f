"""``opened``: a saved model with what reads its sources, a tokenizer or, for speech, a processor."""

from pathlib import Path
from typing import Any

from transformers import AutoProcessor, AutoTokenizer, PreTrainedModel

from dwindle.attaching.saved import from_pretrained
from dwindle.models.bars import bars_on_terminals


def opened(name: str) -> tuple[PreTrainedModel, Any]:
    """The model of a folder or of the hub, in eval mode, and its tokenizer or processor."""
    if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
        raise ValueError(f"{name} is not a saved model: it has no config.json")
    try:
        with bars_on_terminals():
            model = from_pretrained(name)
            speech = model.main_input_name == "input_features"
            tokenizer = (AutoProcessor if speech else AutoTokenizer).from_pretrained(name)
    except OSError as error:
        why = str(error).strip().partition("\n")[0]
        raise ValueError(f"{name} is not a model's folder, and could not be loaded from the hub: {why}") from None
    return model.eval(), tokenizer
