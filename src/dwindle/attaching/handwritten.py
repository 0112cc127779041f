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

from dwindle.attaching.cross import CrossAttention, Pass
from dwindle.attaching.find import Path
from dwindle.core.coverage import Coverage, state_dtype
from dwindle.core.temporal import Temporal


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

    def __call__(self, *args: Any, dwindle_pass: Pass, **kwargs: Any) -> Any:
        with _Diminish(dwindle_pass):
            return type(self.module).forward(self.module, *args, **kwargs)


class _Diminish(TorchFunctionMode):
    """Inside it, the first softmax over rows returns diminished weights."""

    def __init__(self, one: Pass) -> None:
        super().__init__()
        self.one = one
        self.done = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if self.done or func not in (F.softmax, torch.softmax, Tensor.softmax):
            return out
        self.done = True
        scores = args[0] if args else kwargs["input"]
        return self._diminished(scores if isinstance(self.one.rule, Temporal) else out).to(out.dtype)

    def _diminished(self, attention: Tensor) -> Tensor:
        """The weights, from what the softmax gave, or took if the rule works on scores."""
        one = self.one
        shape = attention.shape
        # Some families fold the heads into the batch: (B H, T, S). Coverage is kept as (B, H, S) all the same.
        rows = attention if attention.dim() == 4 else attention.view(one.batch, -1, *shape[1:])
        temporal = isinstance(one.rule, Temporal)
        if one.rows is not None:
            rows = rows.masked_fill(~one.rows[:, None, :, None], -torch.inf if temporal else 0)
        mask = one.protected(shape[-1])
        protected = None if mask is None else mask[:, None, :]
        before = one.coverage

        def diminish(rows: Tensor) -> tuple[Tensor, Coverage]:
            if isinstance(one.rule, Temporal):
                return one.rule.rows(rows.to(state_dtype(rows)), before)
            return one.rule(rows, before, protected=protected)

        weights, after = diminish(rows)
        one.at.hear(weights if temporal else rows, weights)

        def replay(first: int) -> Coverage:
            return diminish(rows[..., :first, :])[1]

        one.finish(after, rows.shape[-2], replay)
        return weights.reshape(shape)
