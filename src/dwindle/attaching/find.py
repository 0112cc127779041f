"""Finds the attention modules of a `transformers` model, and how each one computes its weights.

A module is known by the name that the model families use for it, and by the source of its
``forward``: it either calls the library's registry of attention functions, or has a softmax written
by hand. This file changes nothing.
"""

import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

Path = Literal["registry", "hand-written"]

_NAMES = re.compile(
    r"(encoder_attn|crossattention|EncDecAttention|cross_attn|cross_attention|encoder_decoder_attention)$"
)

REFUSED = {
    "fsmt": "given encoder outputs its decoder has no causal mask, so uncached generation is "
    "wrong even when untouched",
    "prophetnet": "its n-gram streams share one query axis, so the rows of its attention are not "
    "decoding steps",
    "big_bird": "its cached decoding differs from its uncached decoding even when untouched",
    "t5gemma2": "its self- and cross-attention share one softmax, so no row is over the source "
    "alone",
}
"""Model types whose cross-attention cannot have a rule, and why."""


@dataclass(frozen=True)
class Found:
    """One attention module."""

    name: str
    module: nn.Module
    path: Path

    @property
    def kind(self) -> str:
        return "cross-attention" if _beside_encoder(self.name) else "attention"


def cross_attention(model: nn.Module, modules: list[str] | None = None) -> list[Found]:
    """The cross-attention modules of ``model`` in the order of its layers.

    ``modules`` names them instead, as in ``model.named_modules()``, where the known names do not
    reach.
    """
    _refuse(model)
    if modules is not None:
        return [_named(model, name) for name in modules]
    found = []
    for name, module in model.named_modules():
        if _NAMES.search(name):
            found += [f for f in map(_found, _below(name, module)) if f]
    if not found and any(
        _beside_encoder(name) and _is_fused(module) for name, module in model.named_modules()
    ):
        raise ValueError(
            f"the cross-attention of this {type(model).__name__} is one fused call: load the "
            "model with attn_implementation='eager'"
        )
    return found


def self_attention(model: nn.Module, modules: list[str] | None = None) -> list[Found]:
    """The self-attention modules of a decoder-only ``model`` in order, or those named."""
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        raise ValueError(
            f"the source of {type(model).__name__} is in its encoder: attach without "
            "source='prompt'"
        )
    found = [_named(model, n) for n in modules] if modules is not None else _causal(model)
    unfit = [f.name for f in found if f.path != "registry" or not _takes_any(f.module)]
    if unfit or not (found and _takes_any(model)):
        raise ValueError(
            f"{type(model).__name__} cannot have a source in its prompt: its self-attention "
            "does not use the library's registry of attention functions"
        )
    return found


def choose(found: list[Found], layers: int | range | list[int] | None) -> list[int]:
    """Indices into ``found``: the last ``layers`` of them, those listed, or all."""
    count = len(found)
    if layers is None:
        return list(range(count))
    listed: Any = layers
    if not isinstance(listed, int) and not (
        isinstance(listed, Iterable) and all(isinstance(i, int) for i in listed)
    ):
        raise ValueError(
            f"layers={layers!r}: pass how many of the last layers, a list of indices, or None for "
            "all"
        )
    if isinstance(layers, int):
        if not 1 <= layers <= count:
            raise ValueError(
                f"layers={layers}, but this model has {count} {found[0].kind} layers: pass 1 to "
                f"{count}"
            )
        return list(range(count - layers, count))
    chosen = sorted({i + count if i < 0 else i for i in layers})
    if not chosen or chosen[0] < 0 or chosen[-1] >= count:
        raise ValueError(
            f"layers={list(layers)}, but the {found[0].kind} layers are numbered 0 to {count - 1}"
        )
    return chosen


def self_attention_beside(model: nn.Module, name: str) -> nn.Module | None:
    """The self-attention in the decoder layer of the cross-attention ``name``; the layer itself if
    none is found there.

    It is inside what gradient checkpointing runs again. The hooks of the layer itself are not, from
    5.23 on.
    """
    layer = decoder_layer(model, name)
    if layer is None:
        return None
    inside = (
        m
        for n, m in layer.named_modules()
        if n and not _beside_encoder(n) and _path(m) and _takes_mask(m)
    )
    return next(inside, layer)


def _takes_mask(module: nn.Module) -> bool:
    return not {"attention_mask", "mask"}.isdisjoint(
        inspect.signature(type(module).forward).parameters
    )


def decoder_layer(model: nn.Module, name: str) -> nn.Module | None:
    """The layer around the module ``name``: gradient checkpointing runs it again as a whole."""
    from dwindle.attaching.library import GradientCheckpointingLayer

    parts = name.split(".")
    around = (model.get_submodule(".".join(parts[:end])) for end in range(len(parts) - 1, 0, -1))
    return next((m for m in around if isinstance(m, GradientCheckpointingLayer)), None)


def _refuse(model: nn.Module) -> None:
    for module in model.modules():
        config: Any = getattr(module, "config", None)
        decodes = getattr(config, "is_decoder", False) or getattr(
            config, "is_encoder_decoder", False
        )
        if decodes and config.model_type in REFUSED:  # as an encoder only, it has no say
            raise ValueError(
                f"{type(model).__name__} cannot have a rule: {REFUSED[config.model_type]}"
            )


def _causal(model: nn.Module) -> list[Found]:
    """Modules that look back only, belong to a decoder layer, and are not beside an encoder."""
    return [
        Found(name, module, "registry")
        for name, module in model.named_modules()
        if _path(module) == "registry"
        and isinstance(getattr(module, "layer_idx", None), int)
        and getattr(module, "is_causal", True)
        and not _beside_encoder(name)
    ]


def _beside_encoder(name: str) -> bool:
    """True if a name is that of cross-attention or of a module inside it."""
    return any(_NAMES.search(part) for part in name.split("."))


def _takes_any(module: nn.Module) -> bool:
    """True if ``forward`` passes on arguments it does not know."""
    parameters = inspect.signature(type(module).forward).parameters.values()
    return any(p.kind == p.VAR_KEYWORD for p in parameters)


def _below(name: str, module: nn.Module) -> list[tuple[str, nn.Module]]:
    """The module or the one it wraps (BERT's ``crossattention.self``) that computes weights."""
    if _path(module):
        return [(name, module)]
    return [(f"{name}.{inner}", m) for inner, m in module.named_modules() if inner and _path(m)]


def _found(named: tuple[str, nn.Module]) -> Found | None:
    path = _path(named[1])
    return Found(*named, path) if path else None


def _named(model: nn.Module, name: str) -> Found:
    known = dict(model.named_modules())
    if name not in known:
        raise ValueError(
            f"this model has no module {name!r}: print([n for n, _ in model.named_modules()]) "
            "lists them"
        )
    path = _path(known[name])
    if path is None:
        raise ValueError(
            f"{name} is a {type(known[name]).__name__}, which computes no attention weights itself"
        )
    return Found(name, known[name], path)


def _path(module: nn.Module) -> Path | None:
    try:
        source = inspect.getsource(type(module).forward)
    except (OSError, TypeError):
        return None
    if "ALL_ATTENTION_FUNCTIONS" in source or "attention_interface" in source:
        return "registry"
    return "hand-written" if re.search(r"\bsoftmax\(|\.softmax\b|Softmax", source) else None


def _is_fused(module: nn.Module) -> bool:
    """True if a module calls torch's attention itself, as BERT's did before 5.0: there are no
    weights to diminish."""
    try:
        return "scaled_dot_product_attention(" in inspect.getsource(type(module).forward)
    except (OSError, TypeError):
        return False
