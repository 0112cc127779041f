"""``from_pretrained``: a saved model with its rule, be it the library's or one of ours."""

from __future__ import annotations  # transformers is imported only when something is loaded

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dwindle.attaching import saved

_MOST_LAYERS = 1000
_WEIGHTS = (".safetensors", ".bin")
"""Endings of files that hold weights."""
_FLOAT = 4
"""Bytes of a weight in memory, at most."""
_QUANTISED = 8
"""Numbers of four bits are this much smaller in a file."""
_SLACK = 200_000_000
"""Bytes that a model may have beyond twice its files: what is computed, and new heads."""

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def from_pretrained(name: str | Path, auto_class: Any = None, **kwargs: Any) -> PreTrainedModel:
    """Load a model with the rule it was saved with, if any.

    Args:
        name: a folder or a hub name.
        auto_class: an auto class or a model class of `transformers`; None takes the class that was
            saved.
        kwargs: for ``from_pretrained`` of that class: ``revision``, ``dtype``, ``device_map`` and
            all others.

    Returns:
        The model, in evaluation mode.

    Example:
        >>> handle = dwindle.attach(model, "dim:log")
        >>> model.save_pretrained(folder)
        >>> handle.detach()
        >>> str(dwindle.handle_of(dwindle.from_pretrained(folder)).rule)
        'dim:log'
    """
    _check_layers(Path(name))
    try:
        kind = auto_class or _own(name, kwargs)
        if Path(name).is_dir() and not {"config", "gguf_file", "subfolder"} & kwargs.keys():
            _check_size(Path(name), kind)
        return saved.from_pretrained(name, kind, **kwargs)
    except (OSError, ValueError, ImportError):
        raise
    except Exception as error:
        # A config may say anything, and the library stumbles over it in as many ways.
        if not Path(name).is_dir():
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        if "ignore_mismatched_sizes" in reason:
            reason = "sizes differ"
        raise ValueError(
            f"{name} is not a complete saved model ({reason}): its config.json and its weights "
            "must be of one model"
        ) from error


def _check_layers(folder: Path) -> None:
    """Layers are made before weights are read; a damaged config may ask for more than exist."""
    config = folder / "config.json"
    if not config.is_file():
        return
    try:
        said = json.loads(config.read_text(encoding="utf-8"))
    except ValueError:
        return  # whoever reads the file reports it
    for name, value in said.items() if isinstance(said, dict) else ():
        if (
            name.endswith(("layers", "n_layer"))
            and isinstance(value, int)
            and not 0 <= value <= _MOST_LAYERS
        ):
            raise ValueError(
                f"{config} says {name}: {value}, which no model has: get the folder again"
            )


def _check_size(folder: Path, kind: Any) -> None:
    """The library takes memory for all that a config claims before it finds that the file has other
    weights. Here the model is made on the meta device first, where it takes none, and compared with
    the size of its files."""
    import torch
    import transformers
    from transformers import AutoConfig, PreTrainedModel
    from transformers.utils import logging

    from dwindle.models.library import no_init_weights

    stored = sum(file.stat().st_size for end in _WEIGHTS for file in folder.glob(f"*{end}"))
    if not stored:
        return
    said = logging.get_verbosity()
    logging.set_verbosity_error()  # what is wrong with a config is told once, when it is loaded
    try:
        own = isinstance(kind, type) and issubclass(kind, PreTrainedModel)
        config = (kind.config_class if own else AutoConfig).from_pretrained(folder)
        config._attn_implementation = "eager"  # in place of the gate of a saved rule
        if kind is None:
            kind = getattr(transformers, (config.architectures or [""])[0])
            own = True
        with torch.device("meta"), no_init_weights():
            twin = kind(config) if own else kind.from_config(config)
        twin.tie_weights()
        size = sum(_FLOAT * x.numel() for x in (*twin.parameters(), *twin.buffers()))
    except Exception:
        return  # whoever loads the model reports it
    finally:
        logging.set_verbosity(said)
    if getattr(config, "quantization_config", None):
        stored *= _QUANTISED
    if size > 2 * stored + _SLACK:
        raise ValueError(
            f"{folder} is not a complete saved model: its config.json claims {size:,} bytes of "
            f"weights, and its files have {stored:,}: get the folder again"
        )


def _own(name: str | Path, kwargs: dict[str, Any]) -> Any:
    """The class of a model that the library does not have; None for others."""
    from transformers.utils import cached_file

    from dwindle.models.fairseq import FairseqTransformer
    from dwindle.models.pointer_generator.model import PointerGenerator
    from dwindle.models.presumm import PreSumm
    from dwindle.models.top_down import TopDown

    where = {
        key: kwargs[key] for key in saved.WHERE if key in kwargs and key != "trust_remote_code"
    }
    config = cached_file(name, "config.json", _raise_exceptions_for_missing_entries=False, **where)
    kind = (
        json.loads(Path(config).read_text(encoding="utf-8")).get("model_type") if config else None
    )
    classes: tuple[Any, ...] = (FairseqTransformer, PointerGenerator, PreSumm, TopDown)
    return {c.config_class.model_type: c for c in classes}.get(kind)
