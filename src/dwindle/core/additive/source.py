"""``Source``: the keys and values that additive attention looks at in each step of a recurrent
decoder, with a rule on its weights.

A step is a query's energies, their softmax, the rule and the context vector. The steps of a loop
are taken one by one, because each needs what the last one saw; but what they share (keys, values
and the weights of the energies) gets its gradient once, of all steps together, when they are done.
So neither pass keeps anything of size (B, S, A) for a step. It knows no LSTM.

Shapes: B sources, N = B G queries (G in a row look at the same source: beams), S positions, A
columns, D of the values.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dwindle.core.additive.energies import (
    Shared,
    Terms,
    by_source,
    energies,
    gradients,
    raised,
    shared_gradients,
)
from dwindle.core.coverage import Coverage
from dwindle.core.rules import RowRule


class Glance(NamedTuple):
    """One step."""

    log_attention: Tensor
    """(N, S), minus infinity on padding."""
    weights: Tensor
    """(N, S): the attention after the rule."""
    context: Tensor
    """(N, D): the values under the weights."""
    coverage: Coverage
    """(N, 1, S) each: after this step."""


class Source:
    """Keys (B, S, A), values (B, S, D) and their mask (B, S), True for positions that are there; v
    and, for coverage, w (A,)."""

    def __init__(
        self,
        keys: Tensor,
        values: Tensor,
        mask: Tensor,
        score: Tensor,
        covered: Tensor | None = None,
    ) -> None:
        self.mask = mask.contiguous()
        self.keys, self.values = keys.contiguous(), values
        self.score = score.to(keys.dtype).contiguous()
        self.covered = None if covered is None else covered.to(keys.dtype).contiguous()
        self.raised = raised(self.keys.detach(), self.mask, covered)
        self._steps = _Steps()
        given = (self.keys, self.values, self.score, self.covered)
        wanted = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in given)
        self._end = _End.apply(self._steps, *given) if wanted else None  # type: ignore[no-untyped-call]

    def energies(self, query: Tensor, coverage: Tensor | None = None) -> Tensor:
        """(N, S) of queries (N, A): v . tanh(k_i + q + w c_i), in float32 or better; c is the
        coverage (N, S), which is only looked at where there is a w."""
        query = query.to(self.keys.dtype).contiguous()
        total = (
            None
            if self.covered is None or coverage is None
            else coverage.to(self.keys.dtype).contiguous()
        )
        covered = None if self.covered is None else self.covered.detach()
        given = (self.keys.detach(), self.raised, self.mask, self.score.detach(), covered)
        energy: Tensor = _Energies.apply(self._steps, self._end, query, total, *given)  # type: ignore[no-untyped-call]
        return energy

    def look(
        self,
        energy: Tensor,
        rule: RowRule,
        coverage: Coverage | None,
        protected: Tensor | None = None,
    ) -> Glance:
        """A row of attention from energies (N, S), under the rule; ``protected`` as the rule takes
        it."""
        there = by_source(energy, self.keys).masked_fill(~self.mask.unsqueeze(1), -torch.inf)
        log_attention = there.log_softmax(-1).view(energy.shape)
        attention = log_attention.exp().unsqueeze(1)  # (N, 1, S): one head
        before = Coverage.none(attention.unsqueeze(2)) if coverage is None else coverage
        weights = rule.weigh(attention, *before)
        if protected is not None or rule.protect or rule.renormalise:
            protected = rule.protected(attention.shape[-1], attention.device, protected)
            weights = rule.finish(attention.unsqueeze(2), weights.unsqueeze(2), protected).squeeze(
                2
            )
        weights = weights.squeeze(1)
        # What a rule called on one row would do, in a few operations.
        after = Coverage(before.total + attention, torch.maximum(before.peak, attention))
        return Glance(log_attention, weights, self.context(weights), after)

    def context(self, weights: Tensor) -> Tensor:
        """(N, D): the values under weights (N, S)."""
        given = (weights, self.values.detach())
        context: Tensor = _Context.apply(self._steps, self._end, *given)  # type: ignore[no-untyped-call]
        return context


class _Steps:
    """Collects what the steps of a backward pass leave, until ``_End`` turns it into gradients."""

    def __init__(self) -> None:
        self._pass = -1
        self.energies: list[tuple[Terms, Tensor]] = []
        """The terms and the gradient of the energies (N, S), for each step."""
        self.contexts: list[tuple[Tensor, Tensor]] = []
        """Weights (N, S) and the gradient of their context (N, D), for each step."""

    def of_this_pass(self) -> "_Steps":
        """The lists of this backward pass; those of an earlier pass that did not finish are
        emptied."""
        current = torch._C._current_graph_task_id()
        if current != self._pass:
            self._pass, self.energies, self.contexts = current, [], []
        return self

    def shared(self) -> Shared | None:
        """The gradients of keys, score and covered: once."""
        steps, self.energies = self.energies, []
        if not steps:
            return None
        each, given = zip(*steps, strict=True)
        keys = each[0].keys
        query = _together([x.query for x in each], keys)
        coverage = None if each[0].coverage is None else _together([x.coverage for x in each], keys)
        return shared_gradients(
            each[0]._replace(query=query, coverage=coverage), _together(given, keys)
        )

    def values(self, values: Tensor) -> Tensor | None:
        """The gradient of the values (B, S, D): once."""
        steps, self.contexts = self.contexts, []
        if not steps:
            return None
        weights, context = (
            by_source(_together(x, values), values) for x in zip(*steps, strict=True)
        )
        return weights.mT.to(context.dtype) @ context


def _together(steps: Sequence[Tensor], keys: Tensor) -> Tensor:
    """(N, ...) of T steps -> (B T G, ...): all that looks at a source is in a row."""
    return torch.stack([by_source(x, keys) for x in steps], 1).flatten(0, 2)


class _End(torch.autograd.Function):
    """A node that comes after all steps in the backward pass: each step depends on it."""

    @staticmethod
    def forward(
        ctx: Any, steps: _Steps, keys: Tensor, values: Tensor, score: Tensor, covered: Tensor | None
    ) -> Tensor:
        ctx.steps = steps
        ctx.save_for_backward(keys, values, score)
        return keys.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:
        keys, values, score = ctx.saved_tensors
        steps = ctx.steps.of_this_pass()
        dkeys, dscore, dcovered = steps.shared() or (None, None, None)
        of_weights = (
            _summed(x, score) for x in (dscore, dcovered if ctx.needs_input_grad[4] else None)
        )
        return None, _like(dkeys, keys), _like(steps.values(values), values), *of_weights


class _Energies(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        steps: _Steps,
        end: Tensor | None,
        query: Tensor,
        coverage: Tensor | None,
        *given: Any,
    ) -> Tensor:
        ctx.steps = steps
        terms = Terms._make([*given, query, coverage])
        ctx.save_for_backward(*terms)
        return energies(terms)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, energy: Tensor) -> tuple[Tensor | None, ...]:
        terms = Terms(*ctx.saved_tensors)
        ctx.steps.of_this_pass().energies.append((terms, energy))
        query, coverage = gradients(terms, energy)
        return None, None, _like(query, terms.query), coverage, *[None] * 5


class _Context(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, steps: _Steps, end: Tensor | None, weights: Tensor, values: Tensor
    ) -> Tensor:
        ctx.steps = steps
        ctx.save_for_backward(weights, values)
        context: Tensor = by_source(weights.to(values.dtype), values) @ values
        return context.flatten(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, context: Tensor) -> tuple[Tensor | None, ...]:
        weights, values = ctx.saved_tensors
        ctx.steps.of_this_pass().contexts.append((weights, context))
        given = by_source(context, values) @ values.mT
        return None, None, given.flatten(0, 1).to(weights.dtype), None


def _like(x: Tensor | None, y: Tensor) -> Tensor | None:
    return None if x is None else x.to(y.dtype)


def _summed(x: Tensor | None, y: Tensor) -> Tensor | None:
    """Over sources: (B, A) -> (A,)."""
    return None if x is None else x.sum(0).to(y.dtype)
