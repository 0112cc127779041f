"""``attach`` and ``detach``: a rule goes into a model, and comes out without a trace.

An attached module keeps its class and its weights. ``encoder.py`` and ``prompt.py`` say which modules a rule is for and
how it gets into them; here it is put in and taken out, all or nothing, and written into the config. Everything else in
the model stays as it is: other layers keep the attention implementation they had.
"""

from __future__ import annotations  # the types of transformers are named here but imported only when attaching

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from dwindle.attaching.encoder import EncoderSource
from dwindle.attaching.find import Found, choose
from dwindle.attaching.hooks import FLEX, End, Generate, Link, SourceStrategy
from dwindle.attaching.prompt import PromptSource, trimmed
from dwindle.attaching.threads import changing, refuse_others
from dwindle.core.concave import Concave
from dwindle.core.coverage import Coverage
from dwindle.core.functional import BACKENDS
from dwindle.core.notation import rule as parse
from dwindle.core.rules import Rule

if TYPE_CHECKING:
    from transformers import PreTrainedModel

GATE = "load this model with dwindle.from_pretrained"
"""Saved as the attention implementation of an attached model. There is none of this name, so that the library refuses
to build the model without its rule, and says these words, unless an implementation is asked for by name."""
MARK = "load_this_model_with_dwindle_from_pretrained"
"""A buffer of attached models, for loaders that do not read the gate: they report it as a weight they do not know."""

_SOURCES: dict[str | None, SourceStrategy] = {source.name: source for source in (EncoderSource(), PromptSource())}


@dataclass(frozen=True)
class Settings:
    """What the config of an attached model says, under the key ``dwindle``."""

    rule: str
    layers: list[int]
    modules: list[str] | None = None
    source: Literal["prompt"] | None = None

    @classmethod
    def read(cls, said: Any) -> Settings:
        """From what a config says."""
        try:
            settings = cls(**said)
            parse(settings.rule)
        except (TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"what this config says of its rule cannot be read ({error}): {said!r}") from None
        return settings

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass
class Handle(Link):
    """An attached rule. As a context manager it detaches at the end."""

    layers: list[int] = field(default_factory=list)
    """Indices among the model's cross-attention layers, or its self-attention layers with a source in the prompt."""
    source: Literal["prompt"] | None = None
    previous: Any = None
    """What the config said of a rule before."""
    guests: int | None = None
    """How many records share a plain rule that is there for them only; None for a rule that somebody attached."""

    def detach(self) -> None:
        detach(self.model)

    def coverage(self, cache: Any) -> list[Coverage]:
        """The coverage, each (B, H, S), that the attached layers have left in a cache of the library."""
        from dwindle.attaching.cache import covered

        layers = (covered(cache, one.module.layer_idx, 0) for one in self.attached)  # type: ignore[arg-type]
        return [layer.coverage for layer in layers if layer.coverage is not None]

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        if handle_of(self.model) is self:
            self.detach()

    def __str__(self) -> str:
        width = max(len(a.name) for a in self.attached)
        what = f"{len(self.attached)} layers of {type(self.model).__name__}"
        lines = [f"{self.rule} attached to {what}" + (", source: the prompt" if self.source else "")]
        return "\n".join([*lines, *(f"  {a.name:<{width}}  {a.path}" for a in self.attached)])

    __repr__ = __str__


def handle_of(model: nn.Module) -> Handle | None:
    """The handle of the rule that is attached to ``model``, also inside a wrapper (PEFT, DDP); None without one."""
    return next((vars(m)["_dwindle"] for m in model.modules() if "_dwindle" in vars(m)), None)


def attach(
    model: PreTrainedModel,
    rule: Rule | str,
    layers: int | range | list[int] | None = None,
    modules: list[str] | None = None,
    source: Literal["prompt"] | None = None,
    backend: str | None = None,
) -> Handle:
    """Put ``rule`` into the cross-attention of ``model``, or into the self-attention of a decoder-only one.

    Args:
        model: an encoder-decoder model of `transformers`; with a ``source``, a decoder-only one.
        rule: a rule or its notation; ``"training-free"`` for a model that was never trained with one.
        layers: the last so many attention layers, a list of indices, or None for all.
        modules: names of attention modules, for a model whose cross-attention is not found by itself.
        source: ``"prompt"`` for a decoder-only model: its source is in the prompt (see ``dwindle.source_span``).
        backend: what computes attention, as in ``dwindle.attention``; None for the fastest. It is not saved: which one
            is there depends on the machine, and all give the same numbers.

    Returns:
        A handle; print it to see what was attached. Attaching again replaces the rule.
    """
    if isinstance(rule, Concave):
        raise ValueError(f"{rule} is a function, not a rule: attach Dim({rule!r}), or write 'dim:{rule}'")
    rule = parse(rule)
    where = _where(source)
    found = _find(model, modules, where)
    chosen = choose(found, layers)
    where.refuse(model, rule)
    _check_backend(backend)
    with changing():
        if handle_of(model) is not None:
            detach(model)
        _warn_if_untrained(model, rule)
        handle = Handle(model, rule, backend, layers=chosen, source=source)
        handle.attached = [where.attached(handle, found[index]) for index in chosen]
        with _all_or_nothing(handle):
            where.watch(handle)
            handle.after(model, End(handle), always=True)
            refuse_others(model)
            for one in handle.attached:
                one.enter()
        if hasattr(model, "generate"):
            model.generate = where.generate(handle)
        _sign(handle, Settings(str(rule), chosen, modules, source))
    return handle


def detach(model: PreTrainedModel) -> None:
    """Take the rule out of ``model``: the same objects, the same config, the same outputs as before."""
    handle = handle_of(model)
    if handle is None:
        raise ValueError(f"no rule is attached to this {type(model).__name__}: attach one with dwindle.attach")
    model = handle.model
    with changing():
        refuse_others(model)
        for one in handle.attached:
            one.leave()
        handle.unhook()
        if isinstance(vars(model).get("generate"), Generate):
            del model.generate
        delattr(model, MARK)
        del model.config.attn_implementation
        if handle.previous is None:
            del model.config.dwindle
        else:
            model.config.dwindle = handle.previous
        del model._dwindle


@contextmanager
def source_span(model: nn.Module, mask: Tensor) -> Iterator[None]:
    """Inside it, the source is where ``mask`` says, for the thread that opened it.

    Args:
        model: with a rule attached by ``attach(..., source="prompt")``, also inside a wrapper (PEFT, DDP).
        mask: bool (B, P), True on the document's tokens: over the prompt of a ``generate()``, or over the whole
            sequence in training. Positions beyond its end are not source. An example without any stays plain.
    """
    handle = handle_of(model)
    if handle is None or handle.source != "prompt":
        raise ValueError("no source can be marked here: attach a rule with source='prompt' first")
    if mask.dim() != 2:
        raise ValueError(f"the mask of a source must be (batch, prompt), not {tuple(mask.shape)}")
    here = handle.here
    before, here.span = here.span, trimmed(mask.bool())
    try:
        yield
    finally:
        here.span = before


def _where(source: str | None) -> SourceStrategy:
    if source not in _SOURCES:
        raise ValueError(f"source={source!r} is unknown: pass source='prompt', or none for an encoder-decoder model")
    return _SOURCES[source]


def _find(model: PreTrainedModel, modules: list[str] | None, where: SourceStrategy) -> list[Found]:
    found = where.find(model, modules)
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no cross-attention: for a decoder-only model pass source='prompt', "
            "or name the attention modules with modules=[...]"
        )
    from dwindle.attaching import library

    if any(library.implementation(getattr(f.module, "config", None)) == "flex_attention" for f in found):
        raise ValueError(FLEX)
    return found


def _check_backend(backend: str | None) -> None:
    if backend is not None and backend not in BACKENDS:
        known = ", ".join(map(repr, BACKENDS))
        raise ValueError(f"unknown backend {backend!r}: choose one of {known}, or None for the fastest")


@contextmanager
def _all_or_nothing(handle: Handle) -> Iterator[None]:
    """What raises inside leaves no hook behind."""
    try:
        yield
    except BaseException:
        handle.unhook()
        raise


def _sign(handle: Handle, settings: Settings) -> None:
    """The model says what it carries: in memory, in its config, among its weights."""
    model = handle.model
    handle.previous = getattr(model.config, "dwindle", None)
    model._dwindle = handle
    model.config.dwindle = settings.as_dict()
    model.config.attn_implementation = GATE
    model.register_buffer(MARK, torch.zeros(1, dtype=torch.uint8, device=model.device))
    handle.removable.append(model.register_load_state_dict_pre_hook(_weights_without_mark))


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
