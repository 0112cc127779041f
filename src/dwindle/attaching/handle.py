"""``attach`` and ``detach``: a rule goes into a model, and comes out without a trace.

An attached module keeps its class and its weights. ``encoder.py`` and ``prompt.py`` say which
modules a rule is for and how it gets into them; here it is put in and taken out, all or nothing,
and written into the config. Everything else in the model stays as it is: other layers keep the
attention implementation they had.
"""

# the types of transformers are named here but imported only when attaching
from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from dwindle.attaching.encoder import EncoderSource
from dwindle.attaching.find import Found, choose
from dwindle.attaching.hooks import FLEX, End, Generate, Hook, Link, SourceStrategy
from dwindle.attaching.hub import Push, write_card
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
"""Saved as the attention implementation of an attached model. There is none of this name, so that
the library refuses to build the model without its rule, and says these words, unless an
implementation is asked for by name."""
MARK = "load_this_model_with_dwindle_from_pretrained"
"""A buffer of attached models, for loaders that do not read the gate: they report it as a weight
they do not know."""

_saving = threading.Lock()

_SOURCES: dict[str | None, SourceStrategy] = {
    source.name: source for source in (EncoderSource(), PromptSource())
}


@dataclass(frozen=True)
class Settings:
    """The entry ``dwindle`` in the saved config of an attached model."""

    rule: str
    layers: list[int]
    modules: list[str] | None = None
    source: Literal["prompt"] | None = None

    @classmethod
    def read(cls, said: Any) -> Settings:
        """Read the entry of a config; a wrong one is a ``ValueError``."""
        try:
            settings = cls(**said)
            parse(settings.rule)
        except (TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"the rule in this config cannot be read ({error}): {said!r}"
            ) from None
        return settings

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass
class Handle(Link):
    """An attached rule. As a context manager it detaches at the end.

    Example:
        >>> with dwindle.attach(model, "dim:log", layers=1) as handle:
        ...     handle
        dim:log attached to 1 layer of BartForConditionalGeneration
          model.decoder.layers.1.encoder_attn  registry
    """

    settings: Settings = field(kw_only=True)
    """The entry that the config gets when the model is saved."""
    layers: list[int] = field(default_factory=list)
    """Indices among the model's cross-attention layers, or its self-attention layers with a source
    in the prompt."""
    source: Literal["prompt"] | None = None
    previous: Any = None
    """The entry of a rule that was in the config before."""
    guests: int | None = None
    """Number of records that share a plain rule of their own; None for a rule that was attached."""

    def detach(self) -> None:
        detach(self.model)

    def coverage(self, cache: Any) -> list[Coverage]:
        """The coverage, each (B, H, S), that the attached layers left in a cache of the library."""
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
        layers = "1 layer" if len(self.attached) == 1 else f"{len(self.attached)} layers"
        what = f"{layers} of {type(self.model).__name__}"
        lines = [
            f"{self.rule} attached to {what}" + (", source: the prompt" if self.source else "")
        ]
        return "\n".join([*lines, *(f"  {a.name:<{width}}  {a.path}" for a in self.attached)])

    __repr__ = __str__


def handle_of(model: nn.Module) -> Handle | None:
    """The handle of the rule that is attached to ``model``.

    Args:
        model: with or without a rule, also inside a wrapper (PEFT, DDP).

    Returns:
        The handle, or None if no rule is attached.

    Example:
        >>> dwindle.handle_of(model) is None
        True
    """
    return next((vars(m)["_dwindle"] for m in model.modules() if "_dwindle" in vars(m)), None)


def attach(
    model: PreTrainedModel,
    rule: Rule | str,
    layers: int | range | list[int] | None = None,
    modules: list[str] | None = None,
    source: Literal["prompt"] | None = None,
    backend: str | None = None,
) -> Handle:
    """Put ``rule`` into the cross-attention of ``model``, or into the self-attention of a
    decoder-only one.

    Args:
        model: an encoder-decoder model of `transformers`; with a ``source``, a decoder-only one.
        rule: a rule or its notation; ``"training-free"`` for a model that was never trained with
            one.
        layers: the last so many attention layers, a list of indices, or None for all.
        modules: names of attention modules, for a model whose cross-attention is not found by
            itself.
        source: ``"prompt"`` for a decoder-only model: its source is in the prompt (see
            ``dwindle.source_span``).
        backend: what computes attention, as in ``dwindle.attention``; None for the fastest. It is
            not saved: which one is there depends on the machine, and all give the same numbers.

    Returns:
        A handle; print it to see what was attached. Attaching again replaces the rule.

    Example:
        >>> handle = dwindle.attach(model, "dim:boxcox(0.65)", layers=1)
        >>> model.generate(**inputs, num_beams=2, max_new_tokens=4).shape
        torch.Size([1, 5])
        >>> handle.detach()
    """
    if isinstance(rule, Concave):
        raise ValueError(
            f"{rule} is a function, not a rule: attach Dim({rule!r}), or write 'dim:{rule}'"
        )
    rule = parse(rule)
    where = _where(source)
    _try_newer(source)
    found = _find(model, modules, where)
    chosen = choose(found, layers)
    where.refuse(model, rule)
    _check_backend(backend)
    with changing():
        if handle_of(model) is not None:
            detach(model)
        _warn_if_untrained(model, rule)
        settings = Settings(str(rule), chosen, modules, source)
        handle = Handle(model, rule, backend, settings=settings, layers=chosen, source=source)
        handle.attached = [where.attached(handle, found[index]) for index in chosen]
        with _all_or_nothing(handle):
            where.watch(handle)
            handle.after(model, End(handle), always=True)
            refuse_others(model)
            for one in handle.attached:
                one.enter()
        if hasattr(model, "generate"):
            model.generate = where.generate(handle)
        _sign(handle)
    return handle


def detach(model: PreTrainedModel) -> None:
    """Take the rule out of ``model``: objects, config and outputs are the same as before.

    Args:
        model: with a rule attached.

    Example:
        >>> handle = dwindle.attach(model, "dim:log")
        >>> dwindle.detach(model)
        >>> dwindle.handle_of(model) is None
        True
    """
    handle = handle_of(model)
    if handle is None:
        raise ValueError(
            f"no rule is attached to this {type(model).__name__}: attach one with dwindle.attach"
        )
    model = handle.model
    with changing():
        refuse_others(model)
        for one in handle.attached:
            one.leave()
        handle.unhook()
        if isinstance(vars(model).get("generate"), Generate):
            del model.generate
        if isinstance(vars(model).get("save_pretrained"), Save):
            del model.save_pretrained
        if isinstance(vars(model).get("push_to_hub"), Push):
            del model.push_to_hub
        delattr(model, MARK)
        if handle.previous is not None:
            model.config.dwindle = handle.previous
        del model._dwindle


@contextmanager
def source_span(model: nn.Module, mask: Tensor) -> Iterator[None]:
    """For the time of the block, say where in the prompt the source is.

    The span is open for the thread or the task of asyncio that opened it, and for everything that
    runs in a copy of its context: tasks created inside it, ``asyncio.to_thread``,
    ``contextvars.copy_context().run`` in a thread of your own. A thread that is started without a
    copy has no span. A generator that yields inside it keeps it to itself.

    Args:
        model: with a rule attached by ``attach(..., source="prompt")``, also inside a wrapper
            (PEFT, DDP).
        mask: bool (B, P), True on the document's tokens: over the prompt of a ``generate()``, or
            over the whole sequence in training. Positions beyond its end are not source. An example
            without any stays plain.

    Yields:
        Nothing.

    Example:
        >>> prompt = torch.tensor([[5, 6, 7, 8]])
        >>> with dwindle.attach(llama, "dim:log", source="prompt"):
        ...     with dwindle.source_span(llama, prompt != 8):  # the last token is an instruction
        ...         llama.generate(prompt, max_new_tokens=2, min_new_tokens=2).shape
        torch.Size([1, 6])
    """
    handle = handle_of(model)
    if handle is None or handle.source != "prompt":
        raise ValueError("no source can be marked here: attach a rule with source='prompt' first")
    if mask.dim() != 2:
        raise ValueError(f"the mask of a source must be (batch, prompt), not {tuple(mask.shape)}")
    with handle.scopes.opened("span", trimmed(mask.bool())):
        yield


def _try_newer(source: str | None) -> None:
    """A release of the library that no test has seen is tried on a tiny model first."""
    from dwindle.attaching import newer

    if source is None:
        newer.try_once("attach", partial(newer.cross_attention, attach))
    else:
        newer.try_once("attach to a prompt", partial(newer.prompt, attach, source_span))


def _where(source: str | None) -> SourceStrategy:
    if source not in _SOURCES:
        raise ValueError(
            f"source={source!r} is unknown: pass source='prompt', or none for an encoder-decoder "
            "model"
        )
    return _SOURCES[source]


def _find(model: PreTrainedModel, modules: list[str] | None, where: SourceStrategy) -> list[Found]:
    found = where.find(model, modules)
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no cross-attention: for a decoder-only model pass "
            "source='prompt', or name the attention modules with modules=[...]"
        )
    from dwindle.attaching import library

    if any(
        library.implementation(getattr(f.module, "config", None)) == "flex_attention" for f in found
    ):
        raise ValueError(FLEX)
    return found


def _check_backend(backend: str | None) -> None:
    if backend is not None and backend not in BACKENDS:
        known = ", ".join(map(repr, BACKENDS))
        raise ValueError(
            f"unknown backend {backend!r}: choose one of {known}, or None for the fastest"
        )


@contextmanager
def _all_or_nothing(handle: Handle) -> Iterator[None]:
    """If anything raises inside the block, take every hook off again."""
    try:
        yield
    except BaseException:
        handle.unhook()
        raise


def _sign(handle: Handle) -> None:
    """The model says what it carries: in memory, among its weights, and in its saved config.

    Not in the config before that: whoever makes another model from it gets one without the rule.
    """
    model = handle.model
    handle.previous = vars(model.config).pop("dwindle", None)
    model._dwindle = handle
    model.save_pretrained, model.push_to_hub = Save(handle), Push(handle)
    # on the CPU for a model without weights: those that come later bring no mark
    where = torch.device("cpu") if model.device.type == "meta" else model.device
    model.register_buffer(MARK, torch.zeros(1, dtype=torch.uint8, device=where))
    handle.removable.append(model.register_load_state_dict_pre_hook(_weights_without_mark))


@dataclass
class Save(Hook):
    """The ``save_pretrained`` of an attached model: its config on disk says what it carries, and
    has the gate; so does its card, unless the library pushes the folder at once with a card of its
    own."""

    link: Handle

    def __call__(self, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
        model, config = self.link.model, vars(self.link.model.config)
        said = {"dwindle": self.link.settings.as_dict(), "attn_implementation": GATE}
        with _saving:
            before = {name: config[name] for name in said if name in config}
            config.update(said)
            try:
                saved = type(model).save_pretrained(model, save_directory, *args, **kwargs)
            finally:
                for name in said:
                    del config[name]
                config.update(before)
        if (
            kwargs.get("is_main_process", args[0] if args else True)
            and Path(save_directory).is_dir()
        ):
            write_card(self.link, Path(save_directory))
        return saved


def _warn_if_untrained(model: PreTrainedModel, rule: Rule) -> None:
    """A rule that does not keep the mass of a row shifts what a trained model is used to."""
    name = getattr(model.config, "name_or_path", "")
    trained = (getattr(model.config, "dwindle", None) or {}).get("rule") == str(rule)
    plain = all(g.boxcox == (1, 1) for g in rule.functions)
    if name and not (trained or plain or rule.renormalise):
        warnings.warn(
            f"{name} was not trained with {rule}: fine-tune it, or attach 'training-free'",
            stacklevel=3,
        )


def _weights_without_mark(model: nn.Module, weights: dict[str, Any], prefix: str, *_: Any) -> None:
    """Weights that were saved before the rule was attached load as they are."""
    weights.setdefault(prefix + MARK, getattr(model, MARK))
