"""``from_pretrained``: a saved model with the rule it was saved with, the library's or one that is only here."""

from __future__ import annotations  # transformers is imported only when something is loaded

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dwindle.attaching import saved

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def from_pretrained(name: str | Path, auto_class: Any = None, **kwargs: Any) -> PreTrainedModel:
    """Load a model with the rule it was saved with, if any.

    Args:
        name: a folder or a hub name.
        auto_class: an auto class or a model class of `transformers`; None takes the class that was saved.
        kwargs: for ``from_pretrained`` of that class.
    """
    return saved.from_pretrained(name, auto_class or _own(Path(name)), **kwargs)


def _own(folder: Path) -> Any:
    """The class of a model that the library does not have; None for others."""
    from dwindle.models.fairseq import FairseqTransformer
    from dwindle.models.pointer_generator.model import PointerGenerator
    from dwindle.models.presumm import PreSumm
    from dwindle.models.top_down import TopDown

    config = folder / "config.json"
    kind = json.loads(config.read_text(encoding="utf-8")).get("model_type") if config.is_file() else None
    classes: tuple[Any, ...] = (FairseqTransformer, PointerGenerator, PreSumm, TopDown)
    return {c.config_class.model_type: c for c in classes}.get(kind)
