"""Models on disk that carry a rule: loading them with it, and saying what a folder has.

``save_pretrained`` of an attached model writes the rule and its layers into ``config.json`` (key ``dwindle``) and a
marker into the weights. A loader that does not know dwindle reports that marker as an unexpected weight, by a name
that says what to do; ``from_pretrained`` here attaches the rule again and stays quiet.
"""

from __future__ import annotations  # transformers is imported only when something is loaded

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dwindle.attach.handle import MARK, attach

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def from_pretrained(name: str | Path, auto_class: Any = None, **kwargs: Any) -> PreTrainedModel:
    """Load a model with the rule it was saved with, if any.

    Args:
        name: a folder or a hub name.
        auto_class: an auto class or a model class of `transformers`; None takes the class that was saved.
        kwargs: for ``from_pretrained`` of that class.
    """
    import transformers

    config = kwargs.get("config") or transformers.AutoConfig.from_pretrained(name)
    if auto_class is None:
        if not config.architectures:
            raise ValueError(
                f"{name} does not say which class it has: pass auto_class=AutoModelForSeq2SeqLM or another"
            )
        auto_class = getattr(transformers, config.architectures[0])
    with _marker_expected():
        model: PreTrainedModel = auto_class.from_pretrained(name, **kwargs)
    if settings := getattr(model.config, "dwindle", None):
        attach(
            model,
            settings["rule"],
            settings["layers"] if "modules" not in settings else None,
            settings.get("modules"),
            settings.get("source"),
        )
    return model


def inspect(path: str | Path) -> dict[str, Any]:
    """What a saved model carries: its class, its type and, if there is one, its rule and layers."""
    file = Path(path) / "config.json"
    if not file.is_file():
        raise ValueError(f"{path} is no saved model: it has no config.json")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{file} is not JSON: {error}") from None
    return {
        "path": str(path),
        "class": (config.get("architectures") or [None])[0],
        "model_type": config.get("model_type"),
        "dwindle": config.get("dwindle"),
    }


@contextmanager
def _marker_expected() -> Iterator[None]:
    """While loading here, the marker among the weights is no news."""
    from transformers import PreTrainedModel

    original = PreTrainedModel._adjust_missing_and_unexpected_keys

    def adjusted(self: PreTrainedModel, loading_info: Any) -> None:
        original(self, loading_info)
        loading_info.unexpected_keys = {k for k in loading_info.unexpected_keys if not k.endswith(MARK)}

    PreTrainedModel._adjust_missing_and_unexpected_keys = adjusted
    try:
        yield
    finally:
        PreTrainedModel._adjust_missing_and_unexpected_keys = original
