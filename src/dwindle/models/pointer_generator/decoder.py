"""The decoder: an LSTM that is fed its last context vector, and additive attention whose weights
follow a rule.

Only what a step needs of the step before is inside the loop over words. The next step is fed a
projection of the context vector, so the loop takes it from projected states, a quarter as wide; the
context vectors themselves are one product after the loop. What a step writes (vocabulary, copying)
is computed for all steps at once in ``model.py``; this file does not know it.

Shapes: B rows, T words, S source positions, H hidden size, E embedding size.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dwindle.core.additive.energies import by_source
from dwindle.core.additive.source import Source
from dwindle.core.rules import Plain, RowRule
from dwindle.models.pointer_generator.config import PointerGeneratorConfig, usable
from dwindle.models.pointer_generator.encoder import EncodedSource
from dwindle.models.pointer_generator.loop import State, loop, loops
from dwindle.models.recurrent import Repeated, lstm_cell

Opening = Literal["trained", "see", "port"]
"""State before the first word. ``trained``: context vector and coverage are zero, as in training.
The others are for decoding as the originals do, whose encoder's last state attends once before the
first word. ``see`` (abisee/pointer-generator, ``attention_decoder.py``,
``initial_state_attention``): the first word is fed the context vector of that attention, and See's
coverage vector begins with it. ``port`` (atulkum/pointer_summarizer,
``training_ptr_gen/model.py``): the coverage vector begins with it, the context vector is zero, and
the attention of the first word is never added to the coverage. A rule begins with nothing covered
unless it shares See's coverage vector."""


@dataclass
class Rows:
    """Results of T steps."""

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
        self.opening: Opening = "trained"

    def start(self, encoded: EncodedSource, mask: Tensor, beams: int = 1) -> State:
        """Before the first word. ``mask`` (B, S): True for words of the source. The state has rows
        for all beams."""
        memory = encoded.last_hidden_state
        fed = F.linear(memory, self.feed.weight[:, -memory.shape[-1] :])
        covered = None if self.covered is None else self.covered.weight[:, 0]
        source = Source(encoded.attention_keys, fed, mask, self.score.weight[0], covered)
        hidden, cell = (x.repeat_interleave(beams, dim=0) for x in (encoded.hidden, encoded.cell))
        state = State.start(hidden, cell, source)
        return state if self.opening == "trained" else self._opened(state)

    def _opened(self, state: State) -> State:
        """The first state as the originals decode: see ``Opening``."""
        rule = self._rule()
        query = self.query(torch.cat([state.cell, state.hidden], dim=-1))
        energy = state.source.energies(query, state.coverage.total[:, 0])
        looked = state.source.look(energy, rule, state.coverage, self._special(state, rule))
        coverage = state.coverage if self.covered is None else looked.coverage
        return replace(
            state,
            context=looked.context if self.opening == "see" else state.context,
            coverage=coverage,
        )

    def _rule(self) -> RowRule:
        """The rule of the context vector."""
        return Plain() if self.config.copy == "alone" else self.rule

    def forward(self, words: Tensor, memory: Tensor, state: State) -> tuple[Rows, State]:
        """``memory`` (B, S, 2H): the encoder's states. ``state`` is left as it is."""
        fed = F.linear(words, self.feed.weight[:, : words.shape[-1]], self.feed.bias)
        copies_alone = self.config.copy == "alone"
        fed, hidden, cell, log_attention, weights, after = self._looped(fed, state, self._rule())
        if self.opening == "port" and self.covered is not None and not state.words:
            assert words.shape[1] == 1, "decoding reads word by word"
            after = replace(after, coverage=state.coverage)
        context = (by_source(weights.to(memory.dtype), memory).flatten(1, 2) @ memory).view(
            *weights.shape[:2], -1
        )
        if copies_alone:
            special = self._special(state, self.rule)
            weights = self.rule(weights.unsqueeze(1), state.coverage, protected=special)[0].squeeze(
                1
            )
        return Rows(fed, hidden, cell, context, log_attention, weights), after

    def _looped(
        self, words: Tensor, state: State, rule: RowRule
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, State]:
        """fed, hidden, cell, log-attention, weights (B, T, ...) of all steps, and the last
        state."""
        if not self.config.temporal and loops(words, state, rule, self.gates, self.query):
            looped = loop(words, state, rule, self.gates, self.query)
            return *looped[:5], looped.state(state)
        layers = (
            Repeated(self.gates.weight, self.gates.bias),
            Repeated(self.query.weight, self.query.bias),
        )
        steps = []
        for word in words.unbind(1):
            step, state = self._step(word + state.context, state, rule, *layers)
            steps.append(step)
        fed, hidden, cell, log_attention, weights = (
            torch.stack(x, dim=1) for x in zip(*steps, strict=True)
        )
        return fed, hidden, cell, log_attention, weights, state

    def _step(
        self, fed: Tensor, state: State, rule: RowRule, gates: Repeated, query: Repeated
    ) -> tuple[tuple[Tensor, ...], State]:
        """One word: LSTM, e = v tanh(W_h h + W_s s + w_c c + b), softmax over the source, rule."""
        hidden, cell = lstm_cell(gates(torch.cat([fed, state.hidden], dim=-1)), state.cell)
        energy = state.source.energies(
            query(torch.cat([cell, hidden], dim=-1)), state.coverage.total[:, 0]
        )
        past, energy = self._over_time(energy, state)
        looked = state.source.look(energy, rule, state.coverage, self._special(state, rule))
        after = State(
            state.source, hidden, cell, looked.context, looked.coverage, past, state.words + 1
        )
        return (fed, hidden, cell, looked.log_attention, looked.weights), after

    def _special(self, state: State, rule: RowRule) -> Tensor | None:
        """The mask that a rule with ``protect(special)`` asks for: no word here is special."""
        return state.source.mask.new_zeros(1) if rule.protect == "special" else None

    def _over_time(self, energy: Tensor, state: State) -> tuple[Tensor | None, Tensor]:
        """Temporal attention: exp(e_t) over the sum of exp(e) of earlier steps, as logarithms."""
        if not self.config.temporal:
            return None, energy
        if state.energy is None:
            return energy, energy
        return torch.logaddexp(state.energy, energy), energy - state.energy
