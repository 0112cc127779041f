"""Cross-attention written by hand: a rule in modules that have a softmax of their own.

Such a module gets a ``forward`` that runs its own one, and diminishes what its first softmax returns. All else is as in
``cross.py``.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from dwindle.attaching.cross import CrossAttention, CrossPass
from dwindle.attaching.find import Path


@dataclass
class HandWritten(CrossAttention):
    """A module with a softmax of its own: it gets a ``forward`` that diminishes what the softmax returns."""

    path: ClassVar[Path] = "hand-written"

    def enter(self) -> None:
        self.module.forward = _Forward(self.module)
        self.hook()

    def leave(self) -> None:
        del self.module.forward


class _Forward:
    """Callable rather than a closure, so that it pickles and copies."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __call__(self, *args: Any, dwindle_pass: CrossPass, **kwargs: Any) -> Any:
        with _Diminish(dwindle_pass):
            return type(self.module).forward(self.module, *args, **kwargs)


class _Diminish(TorchFunctionMode):
    """Inside it, the first softmax over rows returns diminished weights."""

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
        # Some families fold the heads into the batch: (B H, T, S). Coverage is kept as (B, H, S) all the same.
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
