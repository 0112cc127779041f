"""What runs inside an attached module: the rule in place of plain softmax weights.

Two ways in. ``attend`` is registered with the library's attention interface and serves every family that uses it.
``HandWritten`` replaces the ``forward`` of one module that has its own softmax, and diminishes what that softmax
returns. Both are handed a ``Call`` by the hook in ``handle.py``: the rule, the cache layer, and which rows and
positions are special in this call.
"""

from __future__ import annotations  # CoveredLayer needs transformers, which is imported only when attaching

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from dwindle.core.coverage import Coverage
from dwindle.core.functional import attention
from dwindle.core.rules import Rule
from dwindle.core.softmax import attention_scores, grouped

if TYPE_CHECKING:
    from dwindle.attaching.cache import CoveredLayer
    from dwindle.attaching.handle import Handle

NAME = "dwindle"
FLEX = "flex attention masks cannot carry a rule: load the model with attn_implementation='sdpa' or 'eager'"

Sink = Callable[[Tensor, Tensor, Coverage], None]


@dataclass
class Hook:
    """A forward hook of ours. Objects rather than closures: they are copied and pickled with the model."""

    handle: Handle

    def __deepcopy__(self, memo: dict[int, Any]) -> Hook:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
        return twin


@dataclass
class Call:
    """One forward pass of one attached module."""

    rule: Rule
    batch: int
    layer: CoveredLayer | None
    """Where the coverage is kept between calls; None without a cache."""
    rows: Tensor | None
    """Bool (B, T): False for rows of padding. They attend to nothing and add no coverage."""
    special: Tensor | None
    """Bool (items, source tokens): the special tokens of the source, if the rule protects them."""
    sink: Sink | None
    """Receives the attention, the diminished weights and the coverage after them, while somebody records."""
    weights_wanted: bool

    @property
    def coverage(self) -> Coverage | None:
        return self.layer.coverage if self.layer is not None else None

    def protected(self, positions: int) -> Tensor | None:
        """Bool (B, S): the source positions that keep their plain weight."""
        if self.special is None:
            return None
        if self.layer is not None and self.layer.protected is not None:
            return self.layer.protected
        # Beams of an item lie together; encoders that pad their input give more positions than there are tokens.
        mask = self.special.repeat_interleave(self.batch // self.special.shape[0], dim=0)
        mask = F.pad(mask, (0, positions - mask.shape[1]), value=False)
        if self.layer is not None:
            self.layer.protected = mask
        return mask

    def finish(self, after: Coverage, rows: int, replay: Callable[[int], Coverage]) -> None:
        if self.layer is not None:
            self.layer.advance(after, rows, replay)


def register(name: str, function: Callable[..., Any]) -> None:
    """Make ``function`` known to the library. The mask format must be registered too: else masks are dropped."""
    from transformers.masking_utils import AttentionMaskInterface, eager_mask
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, eager_mask)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    dwindle_call: Call | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor | None]:
    """The attention function of an attached module. (B, H, T, D) queries -> (B, T, H, D), as the library wants."""
    if dwindle_call is None:
        raise ValueError(f"{type(module).__name__} was called without its hook: was its forward called directly?")
    call = dwindle_call
    protected = call.protected(key.shape[2])
    settings: dict[str, Any] = {
        "rule": call.rule,
        "mask": _mask(attention_mask, call.rows),
        "bias": position_bias,
        "scale": scaling,
        "protected": protected,
    }
    if softcap is not None:
        settings["softcap"] = softcap
    if call.sink is not None or call.weights_wanted:
        context, weights, after = _visible(call, query, key, value, dropout, settings)
    else:
        context, after = attention(query, key, value, coverage=call.coverage, dropout=dropout, **settings)
        weights = None
    call.finish(after, query.shape[2], partial(_replay, query, key, value, call.coverage, settings))
    return context.transpose(1, 2).contiguous(), weights


def _visible(
    call: Call, query: Tensor, key: Tensor, value: Tensor, dropout: float, settings: dict[str, Any]
) -> tuple[Tensor, Tensor, Coverage]:
    """The same with the rows of attention held in memory, for whoever wants to see them."""
    attended, weights, after = _rows(query, key, call.coverage, settings)
    if call.sink is not None:
        call.sink(attended, weights, after)
    used = F.dropout(weights, dropout) if dropout else weights
    return used.to(value.dtype) @ grouped(value, query.shape[1]), weights, after


def _rows(
    query: Tensor, key: Tensor, coverage: Coverage | None, settings: dict[str, Any]
) -> tuple[Tensor, Tensor, Coverage]:
    """Attention and weights (B, H, T, S), and the coverage after them."""
    named = {k: v for k, v in settings.items() if k in ("mask", "bias", "scale", "softcap")}
    rule, protected = settings["rule"], settings["protected"]
    by_head = None if protected is None else protected[:, None, :]
    attended: tuple[Tensor, Tensor, Coverage] = rule.attend(
        attention_scores(query, key, **named), coverage, protected=by_head
    )
    return attended


def _replay(
    query: Tensor, key: Tensor, value: Tensor, before: Coverage | None, settings: dict[str, Any], rows: int
) -> Coverage:
    """The coverage after the first ``rows`` rows of a call."""
    first: dict[str, Any] = {k: _first_rows(v, rows) if k in ("mask", "bias") else v for k, v in settings.items()}
    after: Coverage = attention(query[:, :, :rows], key, value, coverage=before, **first)[1]
    return after


def _first_rows(x: Tensor | None, rows: int) -> Tensor | None:
    return x if x is None or x.shape[-2] == 1 else x[..., :rows, :]


def _mask(mask: Tensor | None, rows: Tensor | None) -> Tensor | None:
    """One mask, broadcastable to (B, H, T, S), from any form the library hands over."""
    if mask is not None and not isinstance(mask, Tensor):
        raise ValueError(FLEX)
    if mask is not None and mask.dim() == 2:  # (B, S), as flash attention has it
        mask = mask[:, None, None, :].bool()
    if rows is None:
        return mask
    rows = rows[:, None, :, None]
    if mask is None:
        return rows
    return mask & rows if mask.dtype == torch.bool else mask.masked_fill(~rows, -torch.inf)


class HandWritten:
    """A ``forward`` for a module whose softmax is written by hand. Callable, so that it pickles and copies."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __call__(self, *args: Any, dwindle_call: Call, **kwargs: Any) -> Any:
        with _Diminish(dwindle_call):
            return type(self.module).forward(self.module, *args, **kwargs)


class _Diminish(TorchFunctionMode):
    """Inside it, the first softmax over rows returns diminished weights."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call
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
        call = self.call
        shape = scores.shape
        # Some families fold the heads into the batch: (B H, T, S). Coverage is kept as (B, H, S) all the same.
        scores = scores if scores.dim() == 4 else scores.view(call.batch, -1, *shape[1:])
        if call.rows is not None:
            scores = scores.masked_fill(~call.rows[:, None, :, None], -torch.inf)
        mask = call.protected(shape[-1])
        protected = None if mask is None else mask[:, None, :]
        before = call.coverage

        attended, weights, after = call.rule.attend(scores, before, protected=protected)
        if call.sink is not None:
            call.sink(attended, weights, after)

        def replay(first: int) -> Coverage:
            again: Coverage = call.rule.attend(scores[..., :first, :], before, protected=protected).coverage
            return again

        call.finish(after, scores.shape[-2], replay)
        return weights.reshape(shape)
