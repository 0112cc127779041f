"""Models on disk that carry a rule: loading them with it, and saying what a folder has.

``save_pretrained`` of an attached model writes the rule and its layers into ``config.json`` (key
``dwindle``), and two things that make it hard to load the model without them. The gate, an
attention implementation that does not exist, makes ``from_pretrained`` of the library raise. Who
asks for an implementation by name passes it, and then finds the marker among the weights reported
as unexpected. ``from_pretrained`` here attaches the rule again and stays quiet.
"""

# torch and transformers are imported only when something is loaded
from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WHERE = ("revision", "token", "cache_dir", "subfolder", "local_files_only", "trust_remote_code")
"""Options of ``from_pretrained`` that say where a file is."""


def from_pretrained(name: str | Path, auto_class: Any = None, **kwargs: Any) -> PreTrainedModel:
    """Load a model with the rule it was saved with, if any.

    Args:
        name: a folder or a hub name.
        auto_class: an auto class or a model class of `transformers`; None takes the class that was
            saved.
        kwargs: for ``from_pretrained`` of that class.
    """
    from safetensors import SafetensorError

    from dwindle.attaching.handle import MARK, Settings, attach
    from dwindle.attaching.library import unexpected_without

    kwargs.setdefault("attn_implementation", None)  # the library's default, in place of the gate
    if auto_class is None:
        auto_class = _saved_class(name, kwargs)
    try:
        with unexpected_without(MARK):
            loaded: Any = auto_class.from_pretrained(name, **kwargs)
    except SafetensorError as error:
        files = ", ".join(sorted(str(file) for file in Path(name).glob("*.safetensors"))) or name
        raise ValueError(
            f"the weights in {files} are damaged ({error}): copy or save them again"
        ) from None
    # a pair with output_loading_info=True
    model = loaded[0] if isinstance(loaded, tuple) else loaded
    if said := getattr(model.config, "dwindle", None):
        settings = Settings.read(said)
        layers = None if settings.modules else settings.layers
        handle = attach(model, settings.rule, layers, settings.modules, settings.source)
        handle.previous = None  # detached and saved again, the model carries no rule
    return loaded


def inspect(path: str | Path) -> dict[str, Any]:
    """Describe a saved model: its class, its type, and its rule, if any, with where it is."""
    file = Path(path) / "config.json"
    if not file.is_file():
        raise ValueError(f"{path} is not a saved model: it has no config.json")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{file} is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{file} is not a model's config: it holds no named settings")
    attached = config.get("dwindle")
    rule = config.get("rule")  # in this project's own models
    if attached is not None:
        from dwindle.attaching.handle import Settings

        rule = Settings.read(attached).rule
    return {
        "path": str(path),
        "class": (config.get("architectures") or [None])[0],
        "model_type": config.get("model_type"),
        "rule": rule,
        "dwindle": attached,
    }


def _saved_class(name: str | Path, kwargs: dict[str, Any]) -> Any:
    import transformers

    where = {k: kwargs[k] for k in WHERE if k in kwargs}
    config = kwargs.get("config") or transformers.AutoConfig.from_pretrained(name, **where)
    if not config.architectures:
        raise ValueError(
            f"{name} does not say which class it has: pass auto_class=AutoModelForSeq2SeqLM or "
            "another"
        )
    return getattr(transformers, config.architectures[0])
