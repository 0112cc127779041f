"""The decoder: an LSTM that is fed its last context vector, and additive attention whose weights follow a rule.

Only what a step needs of the step before is inside the loop over words. What a step writes (vocabulary, copying) is
computed for all steps at once in ``model.py``; this file does not know it.

Shapes: B rows, T words, S source positions, H hidden size, E embedding size.
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dwindle.core.coverage import state_dtype
from dwindle.models.pointer_generator.config import PointerGeneratorConfig, usable
from dwindle.models.pointer_generator.encoder import Encoded
from dwindle.models.pointer_generator.state import State


@dataclass
class Rows:
    """What T steps computed."""

    fed: Tensor
    """(B, T, E): x_t, word and last context."""
    hidden: Tensor
    """(B, T, H)."""
    cell: Tensor
    """(B, T, H)."""
    context: Tensor
    """(B, T, 2H): h*_t, the encoder's states under the weights."""
    log_attention: Tensor
    """(B, T, S): log a^t, minus infinity on padding."""
    weights: Tensor
    """(B, T, S): a^t after the rule."""


class Decoder(nn.Module):
    """Embedded words (B, T, E) and a state -> ``Rows`` and the next state."""

    def __init__(self, config: PointerGeneratorConfig) -> None:
        super().__init__()
        hidden, words, width = config.hidden_size, config.embedding_size, 2 * config.hidden_size
        self.config = config
        self.rule = usable(config.rule)
        self.feed = nn.Linear(words + width, words)
        self.gates = nn.Linear(words + hidden, 4 * hidden)  # input, forget, candidate, output
        self.query = nn.Linear(2 * hidden, width)  # W_s [c; h] + b
        self.score = nn.Linear(width, 1, bias=False)  # v
        self.covered = nn.Linear(1, width, bias=False) if config.coverage else None  # w_c

    def forward(self, words: Tensor, encoded: Encoded, mask: Tensor, state: State) -> tuple[Rows, State]:
        """``mask`` (B, S): True for words of the source. ``state`` is left as it is."""
        size = words.shape[-1]
        by_context = self.feed.weight[:, size:]
        fed_words = F.linear(words, self.feed.weight[:, :size], self.feed.bias)
        steps = []
        for word in fed_words.unbind(1):
            fed = word + F.linear(state.context, by_context)
            hidden, cell = self._lstm(fed, state)
            step, state = self._attend(fed, hidden, cell, encoded, mask, state)
            steps.append(step)
        stacked = (torch.stack([getattr(step, f.name) for step in steps], dim=1) for f in fields(Rows))
        return Rows(*stacked), state

    def _lstm(self, fed: Tensor, state: State) -> tuple[Tensor, Tensor]:
        """Hidden and cell state (B, H) after one more word."""
        i, f, g, o = self.gates(torch.cat([fed, state.hidden], dim=-1)).chunk(4, dim=-1)
        cell = f.sigmoid() * state.cell + i.sigmoid() * g.tanh()
        return o.sigmoid() * cell.tanh(), cell

    def _attend(
        self, fed: Tensor, hidden: Tensor, cell: Tensor, encoded: Encoded, mask: Tensor, state: State
    ) -> tuple[Rows, State]:
        """One row: e = v tanh(W_h h + W_s s + w_c c + b), its softmax over the words, the rule, the context vector."""
        energy = self._energies(encoded.keys, self.query(torch.cat([cell, hidden], dim=-1)), state)
        past, energy = self._over_time(energy, state)
        log_attention = energy.masked_fill(~mask, -torch.inf).log_softmax(-1)
        # (B, S) -> (B, 1, 1, S): one head, one row. Nothing in this source is special, so nothing is protected as such.
        nothing = mask.new_zeros(1)
        weights, coverage = self.rule(log_attention.exp()[:, None, None], state.coverage, protected=nothing)
        weights = weights[:, 0, 0]
        context = (weights.to(encoded.last_hidden_state.dtype).unsqueeze(1) @ encoded.last_hidden_state).squeeze(1)
        after = State(hidden, cell, context, coverage, past, state.words + 1)
        return Rows(fed, hidden, cell, context, log_attention, weights), after

    def _energies(self, keys: Tensor, query: Tensor, state: State) -> Tensor:
        """(B, S), in float32 or better. v tanh(z) = v (2 sigmoid(2z) - 1), and a sigmoid takes a third of the time."""
        doubled = keys + 2 * query.unsqueeze(1)
        if self.covered is not None:
            doubled = doubled + self.covered(2 * state.coverage.total.transpose(1, 2).to(doubled.dtype))
        energy: Tensor = 2 * self.score(doubled.sigmoid_()).squeeze(-1) - self.score.weight.sum()
        return energy.to(state_dtype(energy))

    def _over_time(self, energy: Tensor, state: State) -> tuple[Tensor | None, Tensor]:
        """Temporal attention: exp(e_t) over the sum of exp(e) of all steps before, in logarithms."""
        if not self.config.temporal:
            return None, energy
        if state.energy is None:
            return energy, energy
        return torch.logaddexp(state.energy, energy), energy - state.energy
