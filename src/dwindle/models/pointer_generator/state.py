"""``State``: what the decoder carries from word to word, as a value that moves with the beams.

``generate()`` keeps it under the name ``past_key_values``. It knows neither the rule nor the
model's weights.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from dwindle.core.additive.source import Source
from dwindle.core.coverage import Coverage


@dataclass
class State:
    """N rows (sources times beams), H hidden size, E embedding size, S source positions."""

    source: Source
    """The source that the attention looks at. The beams of a source share it."""
    hidden: Tensor
    """(N, H): of the LSTM."""
    cell: Tensor
    """(N, H): of the LSTM."""
    context: Tensor
    """(N, E): the context vector of the last word, as the next one is fed with it."""
    coverage: Coverage
    """(N, 1, S) each: the plain attention so far (one head), whatever the rule."""
    energy: Tensor | None = None
    """(N, S): log of the summed exponentials of the energies so far; temporal attention only."""
    words: int = 0
    """Number of words read so far."""

    is_compileable = False  # asked for by generate()

    @classmethod
    def start(cls, hidden: Tensor, cell: Tensor, source: Source) -> "State":
        """Before the first word, from the LSTM's first state (N, H)."""
        rows, (_, positions, width) = len(hidden), source.values.shape
        none = Coverage.none(source.values.new_empty(rows, 1, 0, positions))
        return cls(source, hidden, cell, source.values.new_zeros(rows, width), none)

    def reorder_cache(self, beams: Tensor) -> None:
        """Row i continues what row ``beams[i]`` had."""
        self.hidden, self.cell, self.context = (
            _rows(x, beams) for x in (self.hidden, self.cell, self.context)
        )
        self.coverage = self.coverage.reorder(beams)
        if self.energy is not None:
            self.energy = _rows(self.energy, beams)

    def get_seq_length(self) -> int:
        """Number of words read so far, under the name that ``generate()`` asks for."""
        return self.words


def _rows(x: Tensor, beams: Tensor) -> Tensor:
    return torch.index_select(x, 0, beams.to(x.device))
