"""The fence: all that this room uses of `transformers` and that may change without notice.

Every such name is imported or touched here and nowhere else in the room. Releases from 4.57 on
differ in a few of them: the table ``OFFERS`` says what the installed one has, decided once, when
this file is imported, by looking and never by the release's number. One that lacks a name for which
there is no substitute is refused in a sentence, before a model is changed; ``newer.py`` tries one
that no test has seen. This file imports `transformers`, so that the rest of the room imports it
only when there is a model.
"""

import copy
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import torch

KNOWN = "5.23.0"
"""The newest release that the tests have run with."""


def refusal(what: str, why: object) -> ImportError:
    """The error for an installed release with which dwindle cannot do ``what``."""
    return ImportError(
        f"dwindle cannot {what} with transformers {metadata.version('transformers')} ({why}): "
        f"the newest release known to work is {KNOWN}, pip install 'transformers=={KNOWN}'"
    )


try:
    import transformers
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "attaching needs transformers: pip install 'dwindle[transformers]'", name=error.name
    ) from error
try:
    from transformers import PreTrainedModel
    from transformers.cache_utils import (
        Cache,
        DynamicLayer,
        DynamicSlidingWindowLayer,
        EncoderDecoderCache,
        StaticLayer,
        StaticSlidingWindowLayer,
    )
    from transformers.masking_utils import AttentionMaskInterface, eager_mask
    from transformers.modeling_layers import GradientCheckpointingLayer
    from transformers.modeling_utils import AttentionInterface
except ImportError as error:
    raise refusal("attach", error) from error

__all__ = [
    "OFFERS",
    "Cache",
    "DynamicLayer",
    "DynamicSlidingWindowLayer",
    "EncoderDecoderCache",
    "GradientCheckpointingLayer",
    "PreTrainedConfig",
    "StaticLayer",
    "StaticSlidingWindowLayer",
    "call_instead",
    "dropped_keys",
    "implementation",
    "layer_at",
    "mark_static",
    "missing",
    "refusal",
    "unexpected_without",
    "unregistered",
]


def takes(function: Any, *names: str) -> bool:
    """True if a function has parameters of these names."""
    return set(names) <= set(inspect.signature(function).parameters)


_NAMES: list[tuple[Any, str]] = [
    (AttentionInterface, "register"),
    (AttentionMaskInterface, "register"),
    (Cache, "get_seq_length"),
    (PreTrainedModel, "_adjust_missing_and_unexpected_keys"),
    *(
        (layer, name)
        for layer in (DynamicLayer, StaticLayer)
        for name in ("reset", "get_mask_sizes", "get_seq_length")
    ),
    *(
        (DynamicLayer, name)
        for name in ("reorder_cache", "batch_repeat_interleave", "batch_select_indices", "crop")
    ),
]
"""Methods and attributes of these classes that dwindle uses."""


def missing(names: list[tuple[Any, str]]) -> list[str]:
    """The ``names`` that their classes do not have."""
    return [f"{owner.__name__}.{name}" for owner, name in names if not hasattr(owner, name)]


if lost := missing(_NAMES):
    raise refusal("attach", f"it has no {lost[0]}")

OFFERS: dict[str, bool] = {
    # 5.0 on: that spelling. Before: PretrainedConfig.
    "PreTrainedConfig": hasattr(transformers, "PreTrainedConfig"),
    # by 5.10: a cache layer is asked for the sizes of its mask with a number of rows. Before: with
    # their positions.
    "mask sizes by rows": takes(DynamicLayer.get_mask_sizes, "query_length"),
    # by 5.10: the method that finds weights without a place is given the report to change. Before:
    # it returns two sets.
    "report of weights": takes(PreTrainedModel._adjust_missing_and_unexpected_keys, "loading_info"),
}
"""Differences between releases: by name, whether the installed one has the newer form."""

PreTrainedConfig = (
    transformers.PreTrainedConfig if OFFERS["PreTrainedConfig"] else transformers.PretrainedConfig
)


def implementation(config: Any) -> str | None:
    """The name of the attention function that modules with this config call."""
    name: str | None = getattr(config, "_attn_implementation", None)
    return name


def call_instead(module: Any, name: str, function: Callable[..., Any]) -> Any:
    """Let ``module`` call ``function``, registered as ``name``; the config that it had.

    It gets a shallow copy of its config that names the function: other modules keep theirs. The
    format of masks must be registered too: else they are dropped.
    """
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, eager_mask)
    original = module.config
    module.config = copy.copy(original)
    vars(module.config)["_attn_implementation_internal"] = name
    return original


def layer_at(cache: Cache, index: int) -> Any:
    """The layer of a cache, made now if the library makes it at first use; None if it has none."""
    if cache.layer_class_to_replicate is not None:
        while len(cache.layers) <= index:
            cache.layers.append(cache.layer_class_to_replicate())
    return cache.layers[index] if index < len(cache.layers) else None


def dropped_keys(layer: Any, rows: int) -> int:
    """Number of keys at its front that a sliding layer drops in a call of ``rows`` more rows."""
    asked = rows if OFFERS["mask sizes by rows"] else torch.arange(rows) + layer.get_seq_length()
    return int(layer.get_mask_sizes(asked)[1])


def mark_static(x: torch.Tensor) -> None:
    """Tell the compiler that ``x`` stays where it is, like the tensors of a static cache."""
    torch._dynamo.mark_static_address(x)


def unregistered(name: str, bases: tuple[type[Any], ...]) -> type[Any]:
    """A new class of cache layers. (The library may register a subclass in place of the layer.)"""
    return type(name, bases, {"_layer_type": None})


_loading = threading.Lock()


@contextmanager
def unexpected_without(name: str) -> Iterator[None]:
    """Inside it, weights of that name are not reported at loading. One thread at a time."""
    original = PreTrainedModel._adjust_missing_and_unexpected_keys

    def without(keys: Any) -> Any:
        return type(keys)(key for key in keys if not key.endswith(name))

    def in_report(self: PreTrainedModel, loading_info: Any) -> None:
        original(self, loading_info)
        loading_info.unexpected_keys = without(loading_info.unexpected_keys)

    def returned(self: PreTrainedModel, *given: Any, **named: Any) -> tuple[Any, Any]:
        lacking, unexpected = original(self, *given, **named)
        return lacking, without(unexpected)

    with _loading:
        PreTrainedModel._adjust_missing_and_unexpected_keys = (
            in_report if OFFERS["report of weights"] else returned
        )
        try:
            yield
        finally:
            PreTrainedModel._adjust_missing_and_unexpected_keys = original
