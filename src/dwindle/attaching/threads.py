"""What belongs to one call of an attached model, kept apart for every thread that calls it.

Hooks further out see what the attached modules cannot: the tokens of the source, the mask of a layer's rows, the span
of a document. They leave it in the ``Scope`` of their thread. A rule is put in and taken out only while no other thread
is inside the model: calls that begin meanwhile wait. This file knows neither rules nor the model library.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

import torch
from torch import Tensor, nn

_changing = threading.RLock()


class Listener(Protocol):
    """Somebody who records what this thread's calls attend to."""

    def hear(self, name: str, attention: Tensor, weights: Tensor) -> None:
        """The plain attention and the used weights (B, H, T, S) of the module ``name``."""

    def begin(self) -> None:
        """A pass of the whole model begins."""

    def end(self) -> None:
        """It has ended well."""

    def listens_to(self, name: str) -> bool: ...

    def generate(self, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a ``generate()`` and record what it wrote."""


@dataclass
class Scope:
    """What was seen of the call that runs now."""

    special: Tensor | None = None
    """Bool (items, source tokens): the special tokens of the source."""
    masks: dict[str, Any] = field(default_factory=dict)
    """By the name of an attached module, the self-attention mask of the layer around it, until the module runs."""
    span: Tensor | None = None
    """Bool (items, prompt): the source inside the prompt, while a span is open."""
    listener: Listener | None = None


class Scopes(threading.local):
    """One ``Scope`` a thread. (A plain object inside: compiled graphs follow changes of that, not of this.)"""

    def __init__(self) -> None:
        self.here = Scope()

    def __reduce__(self) -> tuple[type[Scopes], tuple[()]]:
        return Scopes, ()  # a copy of the model is in no call


def wait_for_change() -> None:
    """A call begins: not while a rule is being put in or taken out."""
    if not torch.compiler.is_compiling():
        with _changing:
            pass


@contextmanager
def changing() -> Iterator[None]:
    """Inside it, no call begins that waits for changes."""
    with _changing:
        yield


def refuse_others(model: nn.Module) -> None:
    """Raise if another thread is inside a call of ``model`` or of a part of it."""
    parts = {id(module) for module in model.modules()}
    for thread, frame in sys._current_frames().items():
        if thread != threading.get_ident() and any(id(f.f_locals.get("self")) in parts for f in _stack(frame)):
            raise ValueError(
                f"another thread is inside a call of this {type(model).__name__}: attach and detach before or after it"
            )


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
