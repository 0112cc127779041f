"""Cross-attention written by hand: a rule in modules that have a softmax of their own.

Such a module gets a ``forward`` that runs its own one, and diminishes what its first softmax
returns. All else is as in ``cross.py``.
"""

from __future__ import annotations  # the forward is defined below its user

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from dwindle.attaching.cross import CrossAttention, CrossPass
from dwindle.attaching.find import Path
from dwindle.attaching.hooks import Arguments
from dwindle.attaching.threads import Scopes


@dataclass
class HandWritten(CrossAttention):
    """A module with its own softmax: its new ``forward`` diminishes what the softmax returns."""

    path: ClassVar[Path] = "hand-written"
    forward: _Forward = field(init=False)
    """The one that was put into the module."""

    def enter(self) -> None:
        self.forward = _Forward(
            self.link.scopes, self.name, self.module, vars(self.module).get("forward")
        )
        self.module.forward = self.forward
        self.hook()
        self.link.after(self.module, self.check)

    def leave(self) -> None:
        self.forward.on = False  # whoever has wrapped it since goes on without the rule
        if vars(self.module).get("forward") is not self.forward:
            return
        if (inner := self.forward.inner) is None:
            del self.module.forward
        else:
            self.module.forward = inner

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments:
        """Pass it beside the arguments: a wrapper of the forward may know only the module's own."""
        args, kwargs = super().__call__(module, args, kwargs)
        self.link.here.passes[self.name] = kwargs.pop("dwindle_pass")
        return args, kwargs

    def check(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        if self.link.here.passes.pop(self.name, None) is not None:
            raise ValueError(
                f"the forward of {self.name} was replaced, and the rule with it: detach and "
                "attach again"
            )


class _Forward:
    """Callable rather than a closure, so that it pickles and copies."""

    def __init__(
        self, scopes: Scopes, name: str, module: nn.Module, inner: Callable[..., Any] | None
    ) -> None:
        self.scopes, self.name, self.module, self.inner = scopes, name, module, inner
        self.on = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.on:
            return self._run(*args, **kwargs)
        one = self.scopes.here.passes.pop(self.name, None)
        if one is None:
            raise ValueError(
                f"{self.name} was called without its hook: was its forward called directly?"
            )
        with _Diminish(one):
            return self._run(*args, **kwargs)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        """The forward that the module had, which may be somebody's wrapper."""
        if self.inner is not None:
            return self.inner(*args, **kwargs)
        return type(self.module).forward(self.module, *args, **kwargs)


class _Diminish(TorchFunctionMode):
    """For the time of the block, the first softmax over rows returns diminished weights."""

    def __init__(self, one: CrossPass) -> None:
        super().__init__()
        self.one = one
        self.done = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if self.done or func not in (F.softmax, torch.softmax, Tensor.softmax):
            return out
        self.done = True
        scores = args[0] if args else kwargs["input"]
        return self._diminished(scores).to(out.dtype)

    def _diminished(self, scores: Tensor) -> Tensor:
        """The weights, from what the softmax took."""
        one = self.one
        shape = scores.shape
        # Some families fold the heads into the batch: (B H, T, S). Coverage is kept as (B, H, S)
        # all the same.
        scores = scores if scores.dim() == 4 else scores.view(one.batch, -1, *shape[1:])
        if one.rows is not None:
            scores = scores.masked_fill(~one.rows[:, None, :, None], -torch.inf)
        mask = one.protected(shape[-1])
        protected = None if mask is None else mask[:, None, :]
        before = one.coverage
        attended, weights, after = one.rule.attend(scores, before, protected=protected)
        one.at.hear(attended, weights)

        def replay(first: int) -> Any:
            return one.rule.attend(scores[..., :first, :], before, protected=protected).coverage

        one.finish(after, scores.shape[-2], replay)
        return weights.reshape(shape)
