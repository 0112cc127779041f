"""State of one call of an attached model, kept apart for every thread, task and generator.

Hooks further out see what the attached modules cannot: the tokens of the source, the mask of a
layer's rows. A pass of the model runs in one piece, so they leave it in the ``Scope`` of their
thread. Spans and records are ``with`` blocks, which a task or a generator may leave in the middle
and come back to: a ``Block`` is open in its context (``contextvars``). A rule is put in and taken
out only while no other thread is inside the model: calls that begin meanwhile wait. This file knows
neither rules nor the model library.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

_changing = threading.RLock()


class Listener(Protocol):
    """Records what calls attend to. Several threads may call it at once."""

    def hear(self, name: str, attention: Tensor, weights: Tensor) -> None:
        """The plain attention and the used weights (B, H, T, S) of the module ``name``."""

    def begin(self) -> None:
        """A pass of the whole model begins."""

    def end(self) -> None:
        """The pass has ended without an error."""

    def listens_to(self, name: str) -> bool: ...

    def generate(
        self, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a ``generate()`` and record what it wrote."""


@dataclass
class Scope:
    """State of the calls of one thread."""

    special: Tensor | None = None
    """Bool (items, source tokens): the special tokens of the source, during a pass."""
    encoded: Any = None
    """Output of the encoder, if the pass begins with that, until special tokens are looked for."""
    passes: dict[str, Any] = field(default_factory=dict)
    """By the name of an attached module, what its forward needs, from the hook before it."""
    masks: dict[str, Any] = field(default_factory=dict)
    """By the name of an attached module, its layer's self-attention mask, until the module runs."""
    span: Tensor | None = None
    """The open span for compiled graphs, which cannot read a context."""
    listener: Listener | None = None
    """The listener for compiled graphs."""
    unclear: list[Block] = field(default_factory=list)
    """Blocks of tasks and generators of this thread: while there are any, compiled graphs cannot
    know what is open."""


class Scopes(threading.local):
    """One ``Scope`` a thread, and the blocks of a model that are open in the context that runs now.

    (A plain object inside: compiled graphs follow changes of that, not of this.)
    """

    def __init__(self) -> None:
        self.here = Scope()

    def __reduce__(self) -> tuple[type[Scopes], tuple[()]]:
        return Scopes, ()  # a copy of the model is in no call

    @property
    def span(self) -> Tensor | None:
        """Bool (items, prompt): the source inside the prompt, while a span is open."""
        if torch.compiler.is_compiling():
            if self.here.unclear:
                raise ValueError(
                    "a compiled model does not see the spans of tasks and generators: use its "
                    "generate()"
                )
            return self.here.span
        blocks = self._blocks("span")
        span: Tensor | None = next((block.said for block in blocks if not block.left), None)
        if span is None and blocks:
            raise ValueError(
                "a generator that was left in the middle has a source_span open: end or close() "
                "it before other calls"
            )
        return span

    @property
    def listener(self) -> Listener | None:
        """The listener that records the present call, if any."""
        if torch.compiler.is_compiling():
            return self.here.listener
        return next((block.said for block in self._blocks("listener") if not block.left), None)

    def _blocks(self, what: str) -> list[Block]:
        """The open blocks of this kind, the innermost first."""
        return [
            b for b in reversed(_blocks.get()) if b.scopes is self and b.what == what and not b.lost
        ]

    @contextmanager
    def opened(self, what: Literal["span", "listener"], said: Any) -> Iterator[None]:
        """For the time of the block, set ``what`` to ``said``: for this task or thread, and in
        copies of its context."""
        block, here = Block.opened_by(sys._getframe(), self, what, said), self.here
        before = getattr(here, what)
        token = _blocks.set((*_blocks.get(), block))
        if block.wanders:
            here.unclear.append(block)
        else:
            setattr(here, what, said)
        try:
            yield
        finally:
            others = tuple(other for other in _blocks.get() if other is not block)
            try:
                _blocks.reset(token)
            except ValueError:  # a generator that was closed in another context
                block.lost = True
            _blocks.set(others)
            block.ended = True
            if block in here.unclear:
                here.unclear.remove(block)
            elif not block.wanders:
                setattr(here, what, before)

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Inside it the thread runs this context alone: compiled graphs see what is open."""
        here, span, listener = self.here, self.span, self.listener
        before = here.span, here.listener, here.unclear
        here.span, here.listener, here.unclear = span, listener, []
        try:
            yield
        finally:
            here.span, here.listener = before[:2]
            here.unclear = [block for block in before[2] if not block.ended]


@dataclass(eq=False)
class Block:
    """A ``with`` block that marks the source or sets a listener."""

    scopes: Scopes
    what: str
    said: Any
    generator: FrameType | None
    """The frame of the generator that it stands in, if any."""
    task: asyncio.Task[Any] | None
    """The task that opened it, if any."""
    ended: bool = False
    lost: bool = False
    """True if it has ended elsewhere, so that the context that it was opened in still has it."""

    @classmethod
    def opened_by(cls, frame: FrameType, scopes: Scopes, what: str, said: Any) -> Block:
        owner = _owner(frame)
        return cls(scopes, what, said, owner if _yields(owner) else None, _task())

    @property
    def wanders(self) -> bool:
        """True if its thread may run other code before it ends."""
        return self.generator is not None or self.task is not None

    @property
    def left(self) -> bool:
        """True if its generator has yielded, so that the code that runs now is outside of it.

        A generator that does not run has no caller. One of asyncio may also wait for something that
        it has started itself, in another task or thread.
        """
        if self.generator is None or self.generator.f_back is not None:
            return False
        return (
            not self.generator.f_code.co_flags & inspect.CO_ASYNC_GENERATOR or self.task is _task()
        )


_blocks: ContextVar[tuple[Block, ...]] = ContextVar("dwindle_blocks", default=())


def _owner(frame: FrameType) -> FrameType:
    """The frame whose ``with`` opens a block, past context managers made of generators."""
    while frame.f_back is not None and (
        _of_contextlib(frame) or (_yields(frame) and _of_contextlib(frame.f_back))
    ):
        frame = frame.f_back
    return frame


def _of_contextlib(frame: FrameType) -> bool:
    return frame.f_code.co_filename == contextlib.__file__


def _yields(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR))


def _task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return None


def wait_for_change() -> None:
    """Wait at the start of a call while a rule is being put in or taken out."""
    if not torch.compiler.is_compiling():
        with _changing:
            pass


@contextmanager
def changing() -> Iterator[None]:
    """For the time of the block, let no call begin that waits for changes."""
    with _changing:
        yield


def refuse_others(model: nn.Module) -> None:
    """Raise if another thread is inside a call of ``model`` or of a part of it."""
    parts = {id(module) for module in model.modules()}
    for thread, frame in sys._current_frames().items():
        if thread != threading.get_ident() and any(
            id(f.f_locals.get("self")) in parts for f in _stack(frame)
        ):
            raise ValueError(
                f"another thread is inside a call of this {type(model).__name__}: attach and "
                "detach before or after it"
            )


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
