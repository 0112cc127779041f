"""The decoder's loop over words as one operation, forwards and backwards in ``native/decoder.h``,
and the state that it carries from word to word.

Products over all steps (the gradients of weights, keys and values) are computed here, once. Its
twin is the loop of ``decoder.py``, which does all that this one does not.

Shapes: B sources, T words, S positions, H hidden size, E embedding size, A columns of the keys.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dwindle.core.additive.energies import Terms, shared_gradients
from dwindle.core.additive.source import Source
from dwindle.core.backends.call import kernel_numbers
from dwindle.core.backends.cpu import with_terms
from dwindle.core.coverage import Coverage
from dwindle.core.rules import RowRule
from dwindle.native.functions import KERNEL


@dataclass
class State:
    """The values that the decoder carries from word to word; they move with the beams.

    ``generate()`` keeps them under the name ``past_key_values``. N rows are sources times beams.
    """

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
        """The state before the first word, from the LSTM's first state (N, H)."""
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


class Looped(NamedTuple):
    """Results of T steps; the context and the coverage are those after the last one."""

    fed: Tensor
    """(B, T, E)."""
    hidden: Tensor
    """(B, T, H)."""
    cell: Tensor
    """(B, T, H)."""
    log_attention: Tensor
    """(B, T, S)."""
    weights: Tensor
    """(B, T, S)."""
    context: Tensor
    """(B, E)."""
    total: Tensor
    """(B, S)."""
    peak: Tensor
    """(B, S)."""

    def state(self, before: State) -> State:
        """The state after the last word."""
        coverage = Coverage(self.total.unsqueeze(1), self.peak.unsqueeze(1))
        words = before.words + self.fed.shape[1]
        return State(
            before.source, self.hidden[:, -1], self.cell[:, -1], self.context, coverage, None, words
        )


def loops(words: Tensor, state: State, rule: RowRule, gates: nn.Linear, query: nn.Linear) -> bool:
    """True if ``loop`` can do it: one dtype, one row a source, a rule in numbers, no options."""
    keys = state.source.keys
    alike = all(
        x.dtype == keys.dtype
        for x in (words, state.hidden, state.context, gates.weight, query.weight)
    )
    protects = rule.protect and rule.protect != "special"  # nothing in a source is special
    optionless = not (protects or rule.renormalise) and kernel_numbers(rule) is not None
    simple = len(words) == len(keys) and not torch.is_autocast_enabled(words.device.type)
    return alike and optionless and simple and KERNEL.do(words)


def loop(words: Tensor, state: State, rule: RowRule, gates: nn.Linear, query: nn.Linear) -> Looped:
    """All steps of ``words`` (B, T, E), as they are fed beside the context, from ``state`` on."""
    source = state.source
    given = (words, source.keys, source.values, source.score, source.covered)
    weights = (gates.weight, gates.bias, query.weight, query.bias)
    before = (state.hidden, state.cell, state.context, *(x[:, 0] for x in state.coverage))
    fixed = (with_terms(rule), source.mask, source.raised)
    return Looped(*_Loop.apply(*fixed, *given, *weights, *before))  # type: ignore[no-untyped-call]


class _Given(NamedTuple):
    """The tensors that may need a gradient, as the kernel takes them."""

    words: Tensor
    keys: Tensor
    values: Tensor
    score: Tensor
    covered: Tensor | None
    gates: Tensor
    gates_bias: Tensor
    query: Tensor
    query_bias: Tensor
    hidden: Tensor
    cell: Tensor
    context: Tensor
    total: Tensor
    peak: Tensor

    @property
    def sizes(self) -> tuple[int, ...]:
        """B, T, S, A, H, E."""
        return (
            *self.words.shape[:2],
            *self.keys.shape[1:],
            self.hidden.shape[-1],
            self.words.shape[-1],
        )

    def arrays(self, mask: Tensor, raised: Tensor | None) -> list[Tensor | None]:
        """The arrays in the order of ``decoder.h``, without the coverage, which moves on."""
        words, keys, *others = self[:-2]
        return [words, keys, raised, others[0], mask, *others[1:]]


class _Made(NamedTuple):
    """Tensors that the forward pass fills: of all steps, and of the state after the last one."""

    fed: Tensor
    opened: Tensor
    hidden: Tensor
    cell: Tensor
    queries: Tensor
    log_attention: Tensor
    weights: Tensor
    totals: Tensor
    peaks: Tensor
    context: Tensor
    total: Tensor
    peak: Tensor

    @classmethod
    def room(cls, given: _Given) -> "_Made":
        """Empty tensors for T steps, with a copy of the coverage before."""
        b, t, s, a, h, e = given.sizes
        steps = [given.words.new_empty(b, t, size) for size in (e, 4 * h, h, h, a, s, s, s, s)]
        return cls._make(
            [*steps, given.words.new_empty(b, e), given.total.clone(), given.peak.clone()]
        )


class _Back(NamedTuple):
    """Gradients, as the backward pass finds them and as it leaves them."""

    fed: Tensor
    hidden: Tensor
    cell: Tensor
    log_attention: Tensor
    """Then of the energies."""
    weights: Tensor
    contexts: Tensor
    """(B, T, E): the gradient of the context after each step."""
    gates: Tensor
    queries: Tensor
    hidden_before: Tensor
    cell_before: Tensor
    context: Tensor
    total: Tensor
    peak: Tensor

    @classmethod
    def room(cls, made: _Made, after: tuple[Tensor, ...]) -> "_Back":
        """For those before, with copies of those after: what autograd gives may be shared."""
        fed, hidden, cell, log_attention, weights, *last = (
            x.clone(memory_format=torch.contiguous_format) for x in after
        )
        steps = (torch.empty_like(x) for x in (made.fed, made.opened, made.queries))
        first = (torch.empty_like(x[:, 0]) for x in (hidden, cell))
        return cls(fed, hidden, cell, log_attention, weights, *steps, *first, *last)


class _Loop(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rule: tuple[float, ...], mask: Tensor, raised: Tensor | None, *tensors: Any
    ) -> tuple[Tensor, ...]:
        given = _Given._make(x if x is None else x.contiguous() for x in tensors)
        made = _Made.room(given)
        KERNEL(
            "decoder", given.words.dtype, given.sizes, [*given.arrays(mask, raised), *made], *rule
        )
        ctx.rule = rule
        ctx.save_for_backward(mask, raised, *given, *made)
        return (
            made.fed,
            made.hidden,
            made.cell,
            made.log_attention,
            made.weights,
            made.context,
            made.total,
            made.peak,
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *after: Tensor) -> tuple[Tensor | None, ...]:
        mask, raised, *saved = ctx.saved_tensors
        given, made = _Given(*saved[: len(_Given._fields)]), _Made(*saved[len(_Given._fields) :])
        back = _Back.room(made, after)
        arrays = [*given.arrays(mask, raised), *made, *back]
        KERNEL("decoder_backward", given.words.dtype, given.sizes, arrays, *ctx.rule)
        coverage = None if given.covered is None else made.totals.flatten(0, 1)
        terms = Terms(
            given.keys,
            raised,
            mask,
            given.score,
            given.covered,
            made.queries.flatten(0, 1),
            coverage,
        )
        keys, score, covered = shared_gradients(terms, back.log_attention.flatten(0, 1))
        values = made.weights.mT @ back.contexts
        before = torch.cat([given.hidden.unsqueeze(1), made.hidden[:, :-1]], dim=1)
        return (
            None,
            None,
            None,
            back.fed,
            keys,
            values,
            score.sum(0),
            None if coverage is None else covered.sum(0),
            *_layer(back.gates, made.fed, before),
            *_layer(back.queries, made.cell, made.hidden),
            back.hidden_before,
            back.cell_before,
            back.context,
            back.total,
            back.peak,
        )


def _layer(back: Tensor, *read: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of a layer's weight and bias, from that of what it gave (B, T, O) and what it
    read side by side."""
    rows = back.flatten(0, 1)
    return rows.mT @ torch.cat(read, dim=-1).flatten(0, 1), rows.sum(0)
