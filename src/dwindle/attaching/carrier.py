"""``Carrier``: which rule a model carries, how it gets another one, and what it attended to. For
every kind of model.

The project's own models have their rule built in and are carriers themselves. A model of
`transformers` becomes one
here: its rule is attached. Whoever asks need not know which kind it is.
"""

# the types of transformers are named here but imported only when attaching
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from torch import Tensor

from dwindle.attaching.handle import attach, detach, handle_of
from dwindle.attaching.record import Record, replay
from dwindle.core.notation import rule as parse
from dwindle.core.rules import Plain, Rule

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@runtime_checkable
class Carrier(Protocol):
    """A model that carries a rule."""

    @property
    def rule(self) -> Rule | None:
        """The rule by which its coverage is counted; None if it counts none."""

    def set_rule(self, rule: Rule | str) -> None:
        """Make ``rule`` its only rule."""

    def attended(self, batch: dict[str, Any], sequences: Tensor) -> Record:
        """Attention and weights while it wrote ``sequences`` (N, 1 + T) of ``batch``.

        Rows after the end of a sequence are zero.
        """


@dataclass(frozen=True)
class Library:
    """A model of the library as a carrier."""

    model: PreTrainedModel
    layers: int | list[int] | None = None
    """Number of last layers that a rule is put on, or their indices; None for all."""

    @property
    def rule(self) -> Rule | None:
        handle = handle_of(self.model)
        return None if handle is None else handle.rule

    def set_rule(self, rule: Rule | str) -> None:
        if not isinstance(parse(rule), Plain):
            attach(self.model, rule, self.layers, source=source_of(self.model))
        elif handle_of(self.model) is not None:
            detach(self.model)

    def attended(self, batch: dict[str, Any], sequences: Tensor) -> Record:
        return replay(self.model, batch, sequences)


def source_of(model: PreTrainedModel) -> Literal["prompt"] | None:
    """The ``source`` argument of ``attach`` for a library model: ``prompt`` if decoder-only."""
    return None if model.config.is_encoder_decoder else "prompt"


def carrier_of(model: Any, layers: int | list[int] | None = None) -> Carrier:
    """The model itself if its rule is built in, else the model as one of the library."""
    return model if isinstance(model, Carrier) else Library(model, layers)


def attended(model: PreTrainedModel, batch: dict[str, Any], sequences: Tensor) -> Record:
    """Plain attention and used weights (L, N, T, S) of generated ``sequences`` (N, 1 + T).

    A library model with a rule gives the layers that have it, averaged over heads; one without
    gives all. ``batch`` is what ``generate`` was given. Rows after the end of a sequence are zero.
    """
    here = {k: v.to(model.device) if isinstance(v, Tensor) else v for k, v in batch.items()}
    return carrier_of(model).attended(here, sequences)
