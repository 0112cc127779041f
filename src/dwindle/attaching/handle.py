"""``attach`` and ``detach``: a rule goes into a model, and comes out without a trace.

An attached module keeps its class and its weights. It gets a shallow copy of its config that names the attention
function of ``interface.py`` (or, where attention is written by hand, a ``forward`` of its own), and a hook that
hands each call its rule and its cache layer. Everything else in the model stays as it is: other layers keep the
attention implementation they had.
"""

from __future__ import (
    annotations,  # the types of transformers are named here but imported only when attaching
)

import copy
import inspect
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from dwindle.attaching import interface, prompt
from dwindle.attaching.find import Found, Path, choose, cross_attention, decoder_layer, self_attention
from dwindle.attaching.interface import FLEX, Call, HandWritten, Hook, Sink, register
from dwindle.core.notation import row_rule
from dwindle.core.notation import rule as parse
from dwindle.core.rules import Rule

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from dwindle.attaching.cache import CoveredLayer

GATE = "load this model with dwindle.from_pretrained"
"""Saved as the attention implementation of an attached model. There is none of this name, so that the library refuses
to build the model without its rule, and says these words, unless an implementation is asked for by name."""
MARK = "load_this_model_with_dwindle_from_pretrained"
"""A buffer of attached models, for loaders that do not read the gate: they report it as a weight they do not know."""

Source = Literal["prompt"]

_ALONG = "dwindle_special"  # the key of an encoder's output under which its special tokens are marked

_SPECIAL = (
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "sep_token_id",
    "cls_token_id",
    "decoder_start_token_id",
)


@dataclass
class Context:
    """What the hooks of the whole model saw in the current call and the attached modules cannot see."""

    special: Tensor | None = None
    """Bool (items, source tokens)."""
    span: Tensor | None = None
    """Bool (items, prompt): the source inside the prompt, while a span is open."""

    def __reduce__(self) -> tuple[type[Context], tuple[()]]:
        return Context, ()  # a copy of the model is in no call


@dataclass
class Attached:
    """One module with the rule in it."""

    name: str
    path: Path
    module: nn.Module
    original: Any
    """The config object it had."""
    sink: Sink | None = None
    mask: Tensor | None = None
    """The self-attention mask of its decoder layer, on the way from the layer's hook to the module's."""


@dataclass
class Handle:
    """An attached rule. As a context manager it detaches at the end."""

    model: PreTrainedModel
    rule: Rule
    layers: list[int]
    """Indices among the model's cross-attention layers, or its self-attention layers with a source in the prompt."""
    attached: list[Attached]
    source: Source | None = None
    previous: Any = None
    """What the config said of a rule before."""
    loading: Any = None
    """The hook on ``load_state_dict``."""
    context: Context = field(default_factory=Context)

    def detach(self) -> None:
        detach(self.model)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        if getattr(self.model, "_dwindle", None) is self:
            self.detach()

    def __str__(self) -> str:
        width = max(len(a.name) for a in self.attached)
        what = f"{len(self.attached)} layers of {type(self.model).__name__}"
        lines = [f"{self.rule} attached to {what}" + (", source: the prompt" if self.source else "")]
        return "\n".join([*lines, *(f"  {a.name:<{width}}  {a.path}" for a in self.attached)])

    __repr__ = __str__


def attach(
    model: PreTrainedModel,
    rule: Rule | str,
    layers: int | range | list[int] | None = None,
    modules: list[str] | None = None,
    source: Source | None = None,
) -> Handle:
    """Put ``rule`` into the cross-attention of ``model``, or into the self-attention of a decoder-only one.

    Args:
        model: an encoder-decoder model of `transformers`; with a ``source``, a decoder-only one.
        rule: a rule or its notation; ``"training-free"`` for a model that was never trained with one.
        layers: the last so many attention layers, a list of indices, or None for all.
        modules: names of attention modules, for a model whose cross-attention is not found by itself.
        source: ``"prompt"`` for a decoder-only model: its source is in the prompt (see ``dwindle.source_span``).

    Returns:
        A handle: print it to see what was attached. Attaching again replaces the rule.
    """
    rule = parse(rule)
    found = _find(model, modules, source)
    chosen = choose(found, layers)
    configs = (getattr(f.module, "config", None) for f in found)
    if any(getattr(config, "_attn_implementation", None) == "flex_attention" for config in configs):
        raise ValueError(FLEX)
    if rule.protect == "special" and source is None and not model.config.is_encoder_decoder:
        raise ValueError(f"{type(model).__name__} does not see the tokens of its source: leave +protect(special) out")
    if source is not None:
        row_rule(rule)
    if hasattr(model, "_dwindle"):
        detach(model)
    _warn_if_untrained(model, rule)

    handle = Handle(model, rule, chosen, [], source, previous=getattr(model.config, "dwindle", None))
    for index in chosen:
        handle.attached.append(_attach_one(found[index], handle))
    if source == "prompt":
        _see_prompt(handle)
    elif rule.protect == "special":
        _see_source(handle)

    model._dwindle = handle
    settings: dict[str, Any] = {"rule": str(rule), "layers": chosen}
    if modules is not None:
        settings["modules"] = modules
    if source is not None:
        settings["source"] = source
    model.config.dwindle = settings
    model.config.attn_implementation = GATE
    model.register_buffer(MARK, torch.zeros(1, dtype=torch.uint8, device=model.device))
    handle.loading = model.register_load_state_dict_pre_hook(_weights_without_mark)
    return handle


def detach(model: PreTrainedModel) -> None:
    """Take the rule out of ``model``: the same objects, the same config, the same outputs as before."""
    handle = getattr(model, "_dwindle", None)
    if handle is None:
        raise ValueError(f"no rule is attached to this {type(model).__name__}: attach one with dwindle.attach")
    for one in handle.attached:
        if one.path == "registry":
            one.module.config = one.original
        else:
            del one.module.forward
    for module in model.modules():
        for hooks, with_kwargs in (
            (module._forward_pre_hooks, module._forward_pre_hooks_with_kwargs),
            (module._forward_hooks, module._forward_hooks_with_kwargs),
        ):
            for key in [key for key, hook in hooks.items() if isinstance(hook, Hook)]:
                del hooks[key]
                with_kwargs.pop(key, None)
    if isinstance(vars(model).get("generate"), prompt.Generate):
        del model.generate
    delattr(model, MARK)
    handle.loading.remove()
    del model.config.attn_implementation
    if handle.previous is None:
        del model.config.dwindle
    else:
        model.config.dwindle = handle.previous
    del model._dwindle


def _find(model: PreTrainedModel, modules: list[str] | None, source: Source | None) -> list[Found]:
    if source not in (None, "prompt"):
        raise ValueError(f"source={source!r} is unknown: pass source='prompt', or none for an encoder-decoder model")
    found = self_attention(model, modules) if source else cross_attention(model, modules)
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no cross-attention: for a decoder-only model pass source='prompt', "
            "or name the attention modules with modules=[...]"
        )
    return found


def _attach_one(found: Found, handle: Handle) -> Attached:
    module = found.module
    room = prompt if handle.source else interface
    one = Attached(found.name, found.path, module, getattr(module, "config", None))
    if found.path == "registry":
        register(room.NAME, room.attend)
        module.config = copy.copy(one.original)
        module.config.__dict__["_attn_implementation_internal"] = room.NAME
    else:
        module.forward = HandWritten(module)
    hand_over = prompt.HandOver(handle, one) if handle.source else _HandOver(handle, one)
    module.register_forward_pre_hook(hand_over, with_kwargs=True)
    if handle.source is None and (layer := decoder_layer(handle.model, found.name)) is not None:
        layer.register_forward_pre_hook(_SeeLayer(handle, one, _parameters(layer)), with_kwargs=True)
    return one


def _see_prompt(handle: Handle) -> None:
    """The hook that hands the source down the model, and the ``generate`` that knows its prompt."""
    model = handle.model
    special = sorted(special_tokens(model)) if handle.rule.protect == "special" else None
    model.register_forward_pre_hook(prompt.HandDown(handle, _parameters(model), special), with_kwargs=True)
    if hasattr(model, "generate"):
        model.generate = prompt.Generate(handle)


def _see_source(handle: Handle) -> None:
    """The hooks that find the special tokens of an encoder's source."""
    model = handle.model
    encoder = model.get_encoder()
    encoder.register_forward_hook(_MarkSource(handle, _parameters(encoder)), with_kwargs=True)
    model.register_forward_pre_hook(_SeeSource(handle, _parameters(model)), with_kwargs=True)


def _special_in(ids: Tensor, handle: Handle) -> Tensor:
    """Bool, as ``ids``: which of them are special tokens."""
    return torch.isin(ids, torch.tensor(sorted(special_tokens(handle.model)), device=ids.device))


def _warn_if_untrained(model: PreTrainedModel, rule: Rule) -> None:
    """A rule that does not keep the mass of a row shifts what a trained model is used to."""
    name = getattr(model.config, "name_or_path", "")
    trained = (getattr(model.config, "dwindle", None) or {}).get("rule") == str(rule)
    plain = all(g.boxcox == (1, 1) for g in rule.functions)
    if name and not (trained or plain or rule.renormalise):
        warnings.warn(f"{name} was not trained with {rule}: fine-tune it, or attach 'training-free'", stacklevel=3)


def _weights_without_mark(model: nn.Module, weights: dict[str, Any], prefix: str, *_: Any) -> None:
    """Weights that were saved before the rule was attached load as they are."""
    weights.setdefault(prefix + MARK, getattr(model, MARK))


def _parameters(module: nn.Module) -> list[str]:
    """The names of the positional arguments of a module's forward."""
    return [name for name in inspect.signature(type(module).forward).parameters if name != "self"]


@dataclass
class _SeeLayer(Hook):
    """On the decoder layer around an attached module: its self-attention mask, which shows the rows of padding.

    The layer, for it is what gradient checkpointing runs again: a mask seen further out would be another call's.
    """

    one: Attached
    parameters: list[str]

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.one.mask = (dict(zip(self.parameters, args, strict=False)) | kwargs).get("attention_mask")
        if self.one.mask is not None and not isinstance(self.one.mask, Tensor):
            raise ValueError(FLEX)


@dataclass
class _MarkSource(Hook):
    """After the encoder: the special tokens of its source go along with its output, wherever that is taken."""

    parameters: list[str]

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        ids = (dict(zip(self.parameters, args, strict=False)) | kwargs).get("input_ids")
        if isinstance(output, dict) and ids is not None:
            output[_ALONG] = _special_in(ids, self.handle)


@dataclass
class _SeeSource(Hook):
    """On the whole model: the special tokens of the source, from its ids or from what its encoder had marked."""

    parameters: list[str]

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = dict(zip(self.parameters, args, strict=False)) | kwargs
        encoded, ids = given.get("encoder_outputs"), given.get("input_ids")
        if encoded is not None:
            special = encoded.get(_ALONG) if isinstance(encoded, dict) else None
        else:
            special = None if ids is None else _special_in(ids, self.handle)
        self.handle.context.special = special


@dataclass
class _HandOver(Hook):
    """On an attached module: hand this call its rule, its cache layer, its rows."""

    one: Attached

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        from transformers.cache_utils import Cache

        from dwindle.attaching.cache import covered

        if getattr(module, "_is_replica", False):
            raise ValueError("nn.DataParallel cannot run a rule in its threads: start one process a device (torchrun)")
        hidden = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
        batch, rows = hidden.shape[:2]
        cache = next((x for x in (*args, *kwargs.values()) if isinstance(x, Cache)), None)
        layer = None if cache is None else covered(cache, module.layer_idx, rows)  # type: ignore[arg-type]
        mask, self.one.mask = self.one.mask, None
        call = Call(
            rule=self.handle.rule,
            batch=batch,
            layer=layer,
            rows=None if mask is None else _real_rows(mask, rows, layer),
            special=self._special(batch),
            sink=self.one.sink,
            weights_wanted=self.one.path == "registry" and self.one.original._attn_implementation == "eager",
        )
        return args, {**kwargs, "dwindle_call": call}

    def _special(self, batch: int) -> Tensor | None:
        handle = self.handle
        if handle.rule.protect != "special":
            return None
        if handle.context.special is not None:
            return handle.context.special
        if handle.model.main_input_name == "input_ids":
            raise ValueError(
                "this rule protects the special tokens of the source: call the model with input_ids, "
                "or with encoder_outputs of its own encoder"
            )
        return torch.zeros(batch, 0, dtype=torch.bool, device=handle.model.device)  # speech and images have none


def _real_rows(mask: Tensor, rows: int, layer: CoveredLayer | None) -> Tensor:
    """Bool (B, T): which of the ``rows`` of a call are no padding, from the self-attention mask of its layer."""
    if mask.dim() == 2:  # (B, rows so far), as flash attention has it
        return mask[:, -rows:].bool()
    # (B, 1, T, keys): a row of padding may not see itself. Its own key is the first one not seen before, and in a
    # sliding window, which forgets the oldest keys, still among the last.
    here = torch.arange(rows, device=mask.device)
    start = 0 if layer is None else layer.seen.to(mask.device).clamp(max=mask.shape[-1] - rows)
    itself = mask.expand(-1, -1, rows, -1)[:, 0, here, here + start]
    return itself if itself.dtype == torch.bool else itself == 0


def special_tokens(model: PreTrainedModel) -> set[int]:
    """The ids of the special tokens that the configs of ``model`` name."""
    found: set[int] = set()
    configs = [
        model.config,
        getattr(model.config, "encoder", None),
        getattr(model, "generation_config", None),
    ]
    for config in configs:
        for name in _SPECIAL:
            value = getattr(config, name, None)
            found |= set(value) if isinstance(value, list | tuple) else set() if value is None else {value}
    return {i for i in found if isinstance(i, int) and i >= 0}
