"""Common to all strategies: the link to the model, hooks that copy with it, attached modules.

A *strategy* says where the source of a model is (``SourceStrategy``) and how one attention module
gets its weights (``Attached``): ``encoder.py`` with ``cross.py`` and ``handwritten.py``, and
``prompt.py``. This file knows none of them.
"""

# the types of transformers are named here but imported only when attaching
from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from dwindle.attaching.find import Found, Path
from dwindle.attaching.threads import Scope, Scopes, wait_for_change
from dwindle.core.rules import Rule
from dwindle.core.softmax import attention_scores

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FLEX = (
    "flex attention masks cannot carry a rule: load the model with attn_implementation='sdpa' or "
    "'eager'"
)

Arguments = tuple[tuple[Any, ...], dict[str, Any]]

_SPECIAL = (
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "sep_token_id",
    "cls_token_id",
    "decoder_start_token_id",
)


@dataclass
class Link:
    """The model, the rule and the scopes, which all hooks of an attached model share."""

    model: PreTrainedModel
    rule: Rule
    backend: str | None = None
    scopes: Scopes = field(default_factory=Scopes)
    attached: list[Attached] = field(default_factory=list)
    removable: list[RemovableHandle] = field(default_factory=list)
    """Handles of torch that take the hooks off again."""

    def before(self, module: nn.Module, hook: Callable[..., Any]) -> None:
        """Call ``hook`` before each forward of ``module``."""
        self.removable.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def after(self, module: nn.Module, hook: Callable[..., Any], always: bool = False) -> None:
        """Call ``hook`` after each forward of ``module``; ``always``: also if that failed."""
        self.removable.append(
            module.register_forward_hook(hook, with_kwargs=True, always_call=always)
        )

    def unhook(self) -> None:
        while self.removable:
            self.removable.pop().remove()

    @property
    def here(self) -> Scope:
        """The scope of the pass that runs in this thread."""
        return self.scopes.here

    def special_among(self, ids: Tensor) -> Tensor:
        """Bool, as ``ids``: which of them are special tokens."""
        return torch.isin(ids, torch.tensor(sorted(special_tokens(self.model)), device=ids.device))


@dataclass
class Hook:
    """A forward hook of ours. An object, not a closure: it is copied and pickled with the model."""

    link: Link

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
        return twin


@dataclass
class Attached(Hook, ABC):
    """One attention module with the rule in it. It is the hook that puts together what a pass of
    the module needs."""

    name: str
    module: nn.Module
    original: Any = None
    """The config that the module had, if it has another one now."""
    path: ClassVar[Path]

    @classmethod
    def of(cls, link: Link, found: Found) -> Self:
        return cls(link, found.name, found.module)

    @abstractmethod
    def enter(self) -> None:
        """Put the rule into the module."""

    @abstractmethod
    def leave(self) -> None:
        """Restore the module, except for its hooks."""

    @abstractmethod
    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments: ...

    def hear(self, attention: Tensor, weights: Tensor) -> None:
        listener = self.link.scopes.listener
        if listener is not None:
            listener.hear(self.name, attention, weights)

    @property
    def returns_weights(self) -> bool:
        """True if the module returns its weights, as eager attention does."""
        from dwindle.attaching import library

        return library.implementation(self.original) == "eager"

    @property
    def seen(self) -> bool:
        """True if the weights must be held in memory, to be returned or recorded."""
        return self.returns_weights or self.heard

    @property
    def heard(self) -> bool:
        """True if a listener records this module."""
        listener = self.link.scopes.listener
        return listener is not None and listener.listens_to(self.name)


class SourceStrategy(ABC):
    """One answer to the question where the source of a model is.

    It decides which modules are attached, and what hooks on the whole model look for.
    """

    name: ClassVar[str | None]
    """The ``source`` argument of ``attach``."""

    @abstractmethod
    def find(self, model: PreTrainedModel, modules: list[str] | None) -> list[Found]:
        """The attention modules that look at the source, or those named."""

    @abstractmethod
    def refuse(self, model: PreTrainedModel, rule: Rule) -> None:
        """Raise where this rule makes no sense."""

    @abstractmethod
    def attached(self, link: Link, found: Found) -> Attached:
        """The strategy for one module."""

    @abstractmethod
    def watch(self, link: Link) -> None:
        """Put hooks on the whole model."""

    def generate(self, link: Link) -> Generate:
        """The ``generate`` of the model while it is attached."""
        return Generate(link)


@dataclass
class Begin(Hook):
    """Before a pass of the whole model."""

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments | None:
        wait_for_change()
        if (listener := self.link.scopes.listener) is not None:
            listener.begin()
        return None


@dataclass
class End(Hook):
    """After a pass of the whole model, also one that failed: what was seen of it is forgotten."""

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        here, listener = self.link.here, self.link.scopes.listener
        here.special = here.encoded = None
        here.masks.clear()
        here.passes.clear()
        if listener is not None and output is not None:
            listener.end()


@dataclass
class Generate(Hook):
    """The ``generate`` of an attached model, which tells the listener."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        wait_for_change()
        listener = self.link.scopes.listener
        return (
            self.run(*args, **kwargs)
            if listener is None
            else listener.generate(self.run, args, kwargs)
        )

    def run(self, *args: Any, **kwargs: Any) -> Any:
        model = self.link.model
        with self.link.scopes.settled():
            return type(model).generate(model, *args, **kwargs)


@dataclass(frozen=True)
class Scoring:
    """Arguments of ``dwindle.attention`` from which scores (B, H, T, S) are computed."""

    mask: Tensor | None
    bias: Tensor | None
    scale: float | None
    softcap: float | None

    def rows(self, which: slice) -> Scoring:
        """The same for some of the T rows."""
        return replace(self, mask=_rows(self.mask, which), bias=_rows(self.bias, which))

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return attention_scores(query, key, **self.arguments)

    @property
    def arguments(self) -> dict[str, Any]:
        return vars(self)


def _rows(x: Tensor | None, which: slice) -> Tensor | None:
    return x if x is None or x.shape[-2] == 1 else x[..., which, :]


def given(parameters: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names."""
    return dict(zip(parameters, args, strict=False)) | kwargs


def parameters(module: nn.Module) -> list[str]:
    """The names of the positional arguments of a module's forward."""
    return [name for name in inspect.signature(type(module).forward).parameters if name != "self"]


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
            found |= (
                set(value)
                if isinstance(value, list | tuple)
                else set()
                if value is None
                else {value}
            )
    return {i for i in found if isinstance(i, int) and i >= 0}
