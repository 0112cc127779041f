"""Coverage inside the library's cache, so that whatever moves keys and values moves coverage too.

The layer of the *self-attention* cache that belongs to an attention module is upgraded to a
subclass that also carries its coverage: ``generate()`` reorders, repeats, selects, crops and resets
it like any other state, and makes a new one for each call, so that nothing leaks from one text to
the next. (The self-attention cache, because a crop of an encoder-decoder cache touches only that
one.) This file knows no rule.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dwindle.attaching.library import (
    Cache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    EncoderDecoderCache,
    StaticLayer,
    StaticSlidingWindowLayer,
    layer_at,
    mark_static,
    unregistered,
)
from dwindle.core.transforms import check_in_graph

_UNDOABLE = 32  # calls that can be taken back: more than an assistant drafts at once


@dataclass
class Step:
    """One call of a layer, kept so that some of its rows can be taken back."""

    before: Any
    rows: int
    replay: Callable[[int], Any] | None
    """The coverage after only the first so many rows of the call, while it is the last one."""


class CoveredLayer:
    """Mixed into a cache layer: the layer also has the coverage of the cross-attention beside it,
    or of its own."""

    coverage: Any
    """Coverage that the rule left; None before the first row."""
    protected: Tensor | None
    """Bool (B, S): source positions that a rule protects."""
    source: Tensor | None
    """Bool (B, P): the source inside the prompt of a decoder-only model."""
    seen: Tensor
    """Number of rows that the coverage has seen.

    A tensor, because compiled graphs guard on every integer.
    """
    steps: deque[Step]
    moved: bool
    """True if rows were reordered, repeated or selected since the last step that can be undone."""

    def reorder_cache(self, beam_idx: Tensor) -> None:
        super().reorder_cache(beam_idx)  # type: ignore[misc]
        self._move(
            lambda c: c.reorder(beam_idx), lambda p: p.index_select(0, beam_idx.to(p.device))
        )

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)  # type: ignore[misc]
        self._move(lambda c: c.repeat(repeats), lambda p: p.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices: Tensor) -> None:
        super().batch_select_indices(indices)  # type: ignore[misc]
        self._move(lambda c: c.select(indices), lambda p: p[indices.to(p.device)])

    def reset(self) -> None:
        super().reset()  # type: ignore[misc]
        self.steps.clear()
        self.moved = False
        self.seen.zero_()
        self.protected = self.source = None
        if isinstance(self, StaticLayer) and self.coverage is not None:
            for x in self.coverage:
                x.zero_()
        else:
            self.coverage = None

    def crop(self, size: int) -> None:
        """The library's releases mean different things by ``size``: what counts is how many tokens
        the layer lost."""
        before = self.get_seq_length()  # type: ignore[attr-defined]
        super().crop(size)  # type: ignore[misc]
        cropped = left = int(before - self.get_seq_length())  # type: ignore[attr-defined]
        while left:
            if not self.steps:
                raise ValueError(f"coverage cannot be cropped by {cropped} tokens: too far back")
            step = self.steps.pop()
            kept = max(step.rows - left, 0)
            if kept and step.replay is None:
                raise ValueError(f"coverage cannot be cropped by {cropped} tokens: too far back")
            self.coverage = step.replay(kept) if kept and step.replay else step.before
            if kept:
                self.steps.append(Step(step.before, kept, step.replay))
            self.seen -= step.rows - kept
            left -= step.rows - kept

    @property
    def overwritable(self) -> bool:
        """True if the next call may overwrite the coverage. After beams have moved it may: no step
        before that can be taken back any more."""
        return self.moved and not (torch.is_grad_enabled() or torch.compiler.is_compiling())

    def overwritten(self, rows: int) -> None:
        """A call of ``rows`` rows has moved the coverage on in place."""
        self.seen += rows

    def advance(self, after: Any, rows: int, replay: Callable[[int], Any]) -> None:
        """Take the coverage after one more call of ``rows`` rows."""
        self.seen += rows
        self.moved = False
        if isinstance(self, StaticLayer):
            # Fixed addresses: a compiled graph writes to the tensors it was traced with.
            if self.coverage is None:
                self.coverage = after.clone()
                if not torch.compiler.is_compiling():
                    for x in (*self.coverage, self.seen):
                        mark_static(x)
            else:
                self.coverage.copy_(after)
            return
        # a single row is taken back whole, so it needs no replay
        step = Step(self.coverage, rows, replay if rows > 1 else None)
        if self.steps:
            self.steps[-1].replay = None  # it holds the keys of its call
        self.coverage = after
        if after.total.requires_grad:
            return  # a graph is being built: nobody takes back a training step
        # drafts are checked one text at a time
        keep = _UNDOABLE if after.total.shape[0] == 1 else 1
        self.steps.append(step)
        while len(self.steps) > keep:
            self.steps.popleft()

    def _move(self, coverage: Callable[[Any], Any], mask: Callable[[Tensor], Tensor]) -> None:
        self.steps.clear()
        self.moved = self.coverage is not None
        if self.protected is not None:
            self.protected = mask(self.protected)
        if self.source is not None:
            self.source = mask(self.source)
        if self.coverage is None:
            return
        moved = coverage(self.coverage)
        if isinstance(self, StaticLayer):
            self.coverage.copy_(moved)
        else:
            self.coverage = moved

    def __reduce__(self) -> tuple[Any, ...]:
        plain = next(cls for cls in type(self).__mro__ if not issubclass(cls, CoveredLayer))
        return _rebuild, (plain, self.__dict__)


def cache_among(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Cache | None:
    """The cache that a module was called with, if any."""
    return next((x for x in (*kwargs.values(), *args) if isinstance(x, Cache)), None)


def covered(cache: Cache, layer_idx: int, rows: int) -> CoveredLayer:
    """The layer that carries the coverage of the cross-attention ``layer_idx``, about to see
    ``rows`` more rows.

    Raises where the coverage has not seen exactly the rows that the cache has: every mistake in
    handling a cache shows here.
    """
    own = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
    # An encoder-decoder cache has stored this call's rows by now; a mixed one keeps cross-attention
    # beside layer 0.
    length = own.get_seq_length(layer_idx if isinstance(cache, EncoderDecoderCache) else 0)
    return _checked(own, layer_idx, length - rows)


def covered_itself(cache: Cache, layer_idx: int) -> CoveredLayer:
    """The layer that carries the coverage of the self-attention ``layer_idx``: its own, before it
    stores this call."""
    own = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
    if layer_at(own, layer_idx) is None:
        raise ValueError(
            f"layer {layer_idx} has no cache of its own: leave it out with layers=[...]"
        )
    return _checked(own, layer_idx, own.get_seq_length(layer_idx))


def _checked(own: Cache, layer_idx: int, length: int | Tensor) -> CoveredLayer:
    """The layer, upgraded, if its coverage has seen the ``length`` rows before this call."""
    layer: Any = own.layers[layer_idx]
    if not isinstance(layer, CoveredLayer):
        layer = own.layers[layer_idx] = _rebuild(type(layer), layer.__dict__)
        layer.coverage = None
        layer.protected = None
        layer.source = None
        layer.steps = deque()
        layer.moved = False
        layer.seen = torch.zeros((), dtype=torch.long)
    if torch.compiler.is_compiling():  # checked when the graph runs
        check_in_graph(
            layer.seen == length, "coverage has not seen this cache: start from an empty one"
        )
    elif int(layer.seen) != int(length):
        raise ValueError(
            f"this cache holds {int(length)} tokens, but coverage has seen {int(layer.seen)} of "
            "them: start from an empty cache with the rule attached"
        )
    found: CoveredLayer = layer
    return found


def _covered_class(plain: type[Any]) -> type[Any]:
    if plain not in _CLASSES:
        _CLASSES[plain] = unregistered(f"Covered{plain.__name__}", (CoveredLayer, plain))
    return _CLASSES[plain]


_CLASSES: dict[type[Any], type[Any]] = {}
for _plain in (DynamicLayer, DynamicSlidingWindowLayer, StaticLayer, StaticSlidingWindowLayer):
    _covered_class(_plain)  # made now, because a compiled graph can make objects but no classes


def _rebuild(plain: type[Any], state: dict[str, Any]) -> Any:
    """A covered layer with the state of a plain one. (Their layouts forbid ``__class__ =``.)"""
    cls = _covered_class(plain)
    layer: Any = object.__new__(cls)
    layer.__dict__.update(state)
    return layer
