"""The fence: all that this room uses of `transformers` and that its makers may change without notice.

Every such name is imported or touched here and nowhere else in the room, and looked for when this file is imported: a
version that lacks one is refused in a sentence, before a model is changed. It imports `transformers`, so that the rest
of the room imports it only when there is a model.
"""

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

INSTALL = "pip install 'transformers>=5.22,<5.23'"

try:
    import transformers
    from transformers import PreTrainedConfig, PreTrainedModel
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
    raise ImportError(f"dwindle cannot attach to the transformers installed here ({error}): {INSTALL}") from error

__all__ = [
    "Cache",
    "DynamicLayer",
    "DynamicSlidingWindowLayer",
    "EncoderDecoderCache",
    "GradientCheckpointingLayer",
    "StaticLayer",
    "StaticSlidingWindowLayer",
    "call_instead",
    "implementation",
    "layer_at",
    "mark_static",
    "unexpected_without",
    "unregistered",
]

_NAMES: list[tuple[Any, str]] = [
    (PreTrainedConfig, "_attn_implementation"),
    (PreTrainedModel, "_adjust_missing_and_unexpected_keys"),
    (AttentionInterface, "register"),
    (AttentionMaskInterface, "register"),
    (Cache, "get_seq_length"),
    *((layer, name) for layer in (DynamicLayer, StaticLayer) for name in ("_layer_type", "reset", "get_mask_sizes")),
    *((DynamicLayer, name) for name in ("reorder_cache", "batch_repeat_interleave", "batch_select_indices", "crop")),
]
"""What is used of these classes besides their existence."""


def missing(names: list[tuple[Any, str]]) -> list[str]:
    """Those of the ``names`` that their classes do not have."""
    return [f"{owner.__name__}.{name}" for owner, name in names if not hasattr(owner, name)]


if lost := missing(_NAMES):
    raise ImportError(
        f"dwindle cannot attach to transformers {transformers.__version__} (it has no {lost[0]}): {INSTALL}"
    )


def implementation(config: Any) -> str | None:
    """The name of the attention function that modules with this config call."""
    name: str | None = getattr(config, "_attn_implementation", None)
    return name


def call_instead(module: Any, name: str, function: Callable[..., Any]) -> Any:
    """Let ``module`` call ``function``, registered as ``name``; the config that it had.

    It gets a shallow copy of its config that names the function: other modules keep theirs. The format of masks must be
    registered too: else they are dropped.
    """
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, eager_mask)
    original = module.config
    module.config = copy.copy(original)
    vars(module.config)["_attn_implementation_internal"] = name
    return original


def layer_at(cache: Cache, index: int) -> Any:
    """The layer of a cache, made now if the library would make it when it is first used; None if it has none."""
    if cache.layer_class_to_replicate is not None:
        while len(cache.layers) <= index:
            cache.layers.append(cache.layer_class_to_replicate())
    return cache.layers[index] if index < len(cache.layers) else None


def mark_static(x: torch.Tensor) -> None:
    """Tell the compiler that ``x`` stays where it is, as the library does with the tensors of its static caches."""
    torch._dynamo.mark_static_address(x)


def unregistered(name: str, bases: tuple[type[Any], ...]) -> type[Any]:
    """A new class of cache layers. (The library would register a layer's subclass in place of the layer.)"""
    return type(name, bases, {"_layer_type": None})


_loading = threading.Lock()


@contextmanager
def unexpected_without(name: str) -> Iterator[None]:
    """While models are loaded inside it, weights of that name are not reported. One thread at a time."""
    original = PreTrainedModel._adjust_missing_and_unexpected_keys

    def adjusted(self: PreTrainedModel, loading_info: Any) -> None:
        original(self, loading_info)
        loading_info.unexpected_keys = {k for k in loading_info.unexpected_keys if not k.endswith(name)}

    with _loading:
        PreTrainedModel._adjust_missing_and_unexpected_keys = adjusted
        try:
            yield
        finally:
            PreTrainedModel._adjust_missing_and_unexpected_keys = original
