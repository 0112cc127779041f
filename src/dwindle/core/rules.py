"""The rules: what turns attention into weights, and the coverage that they leave (Eqs. 3 and 5).

A rule is a frozen dataclass. Every rule works from scores (``Rule.attend``). Those of the paper
need no more than softmax rows: they are called on ``(..., T, S)`` attention (``RowRule``), T rows
at once in training, one row a step in decoding, or any split between. All give the same answer.
Rules know g and coverage; they know nothing of queries, keys, models or files.

Shapes: B batch, H heads, T target rows (decoding steps), S source positions.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from dwindle.core.concave import Concave
from dwindle.core.coverage import Coverage, state_dtype
from dwindle.core.softmax import softmax_rows
from dwindle.native.vocabulary import KernelNumbers, Mode

Protect = Literal["special"] | tuple[int, ...]


class Attended(NamedTuple):
    """Attention, weights and coverage that a rule computes from scores."""

    attention: Tensor
    """(..., T, S): what coverage counts."""
    weights: Tensor
    """(..., T, S): what values are weighted with."""
    coverage: Any
    """After these rows."""


@dataclass(frozen=True, kw_only=True)
class Rule(ABC):
    """Turns scores into weights, given the attention that came before.

    The options answer what the paper leaves open; the defaults are its literal reading.

    Example:
        >>> str(dwindle.Dim(dwindle.Log(), renormalise=True))
        'dim:log+renormalise'
    """

    renormalise: bool = False
    """Scale each row to the mass it had. Breaks Theorem 3.1 (see ``dwindle certify``)."""
    share_heads: bool = False
    """One coverage for all heads (dimension -3): that of their mean attention."""
    protect: Protect = ()
    """Source positions that keep their plain weight, for sinks such as ``</s>``: indices (negative
    ones count from the end, padding included), or ``"special"``: a mask that comes with each
    call."""

    def __post_init__(self) -> None:
        if self.protect != "special":
            object.__setattr__(self, "protect", tuple(int(i) for i in self.protect))

    @abstractmethod
    def attend(
        self, scores: Tensor, coverage: Any = None, *, protected: Tensor | None = None
    ) -> Attended:
        """Rows of scores to weights, in order.

        Args:
            scores: (..., T, S), minus infinity where nothing may be attended to.
            coverage: what this rule left before, each (..., S); None at the start.
            protected: bool, broadcastable to the coverage: positions that keep their plain weight.

        Returns:
            Attention and weights in float32 or better. A row that may attend to nothing is zero and
            adds none.
        """

    @property
    def functions(self) -> tuple[Concave, ...]:
        """The g's of this rule, in the order of its constructor."""
        return tuple(v for v in vars(self).values() if isinstance(v, Concave))  # fields() is slow

    @property
    def numbers(self) -> KernelNumbers | None:
        """This rule without its options, if kernels can do it."""
        return None

    def protected(self, positions: int, device: torch.device, mask: Tensor | None) -> Tensor | None:
        """The protected ones of so many positions: bool that broadcasts to (..., S), or None."""
        if self.protect == "special" and mask is None:
            raise ValueError(
                "this rule protects special tokens: pass protected=, a bool mask (..., S)"
            )
        indices = [i for i in self.protect if isinstance(i, int) and -positions <= i < positions]
        if indices:
            listed = torch.zeros(positions, dtype=torch.bool, device=device)
            listed[indices] = True
            mask = listed if mask is None else mask | listed
        return mask

    def __str__(self) -> str:
        """Notation for ``dwindle.rule``, such as ``dydim:log,power(0.5)+renormalise``."""
        head = type(self).__name__.lower()
        if self.functions:
            head += ":" + ",".join(map(str, self.functions))
        options = [f.name for f in fields(self) if getattr(self, f.name) is True]
        if self.protect:
            words = [self.protect] if self.protect == "special" else map(str, self.protect)
            options.append(f"protect({','.join(words)})")
        return "+".join([head, *options])


@dataclass(frozen=True, kw_only=True)
class RowRule(Rule):
    """A rule that needs softmax rows only. Its weights do not sum to one."""

    @abstractmethod
    def weigh(self, added: Tensor, covered: Tensor, peak: Tensor) -> Tensor:
        """The diminished weight of attention ``added`` after ``covered`` and ``peak``.

        Elementwise; the options do not enter here.
        """

    def __call__(
        self,
        attention: Tensor,
        coverage: Coverage | None = None,
        *,
        protected: Tensor | None = None,
        check: bool = False,
    ) -> tuple[Tensor, Coverage]:
        """Diminish rows of attention, in order.

        Args:
            attention: (..., T, S), softmax rows; padding is zero and stays zero.
            coverage: what came before, each (..., S); None at the start.
            protected: bool, broadcastable to the coverage: positions that keep their plain weight.
            check: also look at the values (slow): they must be finite and not negative.

        Returns:
            The diminished weights (..., T, S) in the dtype of ``attention``, and the coverage after
            them.
        """
        if check:
            _check_values(attention)
        a = attention.to(state_dtype(attention))
        seen = self._heads_shared(a)
        shape = seen.shape[:-2] + seen.shape[-1:]
        before = Coverage.none(seen) if coverage is None else coverage.checked(shape, seen.dtype)

        covered, peak, after = accumulate(seen, before, every_peak=self._uses_peak)
        weights = self.weigh(a, covered, peak)
        protected = self.protected(a.shape[-1], a.device, protected)
        return self.finish(a, weights, protected).to(attention.dtype), after

    def attend(
        self, scores: Tensor, coverage: Any = None, *, protected: Tensor | None = None
    ) -> Attended:
        attention = softmax_rows(scores)
        return Attended(attention, *self(attention, coverage, protected=protected))

    def finish(self, attention: Tensor, weights: Tensor, protected: Tensor | None) -> Tensor:
        """The options on whole rows (..., T, S): ``renormalise``, ``protected`` (..., S)."""
        if protected is not None:
            protected = protected.unsqueeze(-2)
        if self.renormalise:
            weights = _with_mass_of(attention, weights, protected)
        return weights if protected is None else torch.where(protected, attention, weights)

    @property
    def _uses_peak(self) -> bool:
        return False

    def _heads_shared(self, a: Tensor) -> Tensor:
        """Attention that coverage sums: (..., H, T, S), or (..., 1, T, S) with ``share_heads``."""
        if not self.share_heads:
            return a
        if a.dim() < 3:
            raise ValueError(f"share_heads needs attention (..., H, T, S), not {tuple(a.shape)}")
        return a.mean(-3, keepdim=True)


@dataclass(frozen=True)
class Plain(RowRule):
    """Attention as it is. It still counts coverage, so that a plain model can be looked at.

    Example:
        >>> attention = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
        >>> weights, coverage = dwindle.Plain()(attention)
        >>> torch.equal(weights, attention), coverage.total.tolist()
        (True, [1.25, 0.75])
    """

    def weigh(self, added: Tensor, covered: Tensor, peak: Tensor) -> Tensor:
        return added

    @property
    def numbers(self) -> KernelNumbers:
        return KernelNumbers(Mode.PLAIN)


@dataclass(frozen=True)
class Dim(RowRule):
    """DimAttn (Eq. 3): F(A^t) - F(A^{t-1}), the marginal gain of g at the coverage so far.

    Example:
        >>> attention = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # (T, S)
        >>> weights, coverage = dwindle.Dim(dwindle.Log(base=2))(attention)
        >>> [round(w, 3) for w in weights[:, 0].tolist()]  # the second time, less
        [1.0, 0.585, 0.0]
    """

    g: Concave

    def weigh(self, added: Tensor, covered: Tensor, peak: Tensor) -> Tensor:
        return self.g.gain(covered, added)

    @property
    def numbers(self) -> KernelNumbers | None:
        if self.g.boxcox == (1.0, 1.0):
            return KernelNumbers(Mode.PLAIN)
        return KernelNumbers(Mode.DIM, *self.g.boxcox) if self.g.boxcox else None


@dataclass(frozen=True)
class DyDim(RowRule):
    """DyDimAttn (Eq. 5): P [F1(A^t) - F1(A^{t-1})] + (1 - P) [F2(A^t) - F2(A^{t-1})].

    P is the largest attention the position received before step t, 0 at the first step. ``g1`` is
    meant to diminish faster than ``g2``; ``dwindle.certify`` tells whether a pair really does.

    Example:
        >>> dwindle.DyDim(dwindle.Log(), dwindle.Power(0.5)) == dwindle.rule("dydim:log,power(0.5)")
        True
    """

    g1: Concave
    g2: Concave
    detach_gate: bool = False
    """Let no gradient flow through P."""

    @property
    def _uses_peak(self) -> bool:
        return True

    def weigh(self, added: Tensor, covered: Tensor, peak: Tensor) -> Tensor:
        gate = peak.detach() if self.detach_gate else peak
        # lerp is the convex combination of Eq. 5, exact where both gains are equal or P is 0 or 1.
        return torch.lerp(self.g2.gain(covered, added), self.g1.gain(covered, added), gate)

    @property
    def numbers(self) -> KernelNumbers | None:
        if not (self.g1.boxcox and self.g2.boxcox):
            return None
        return KernelNumbers(Mode.DYDIM, *self.g1.boxcox, *self.g2.boxcox, self.detach_gate)


def accumulate(a: Tensor, before: Coverage, every_peak: bool) -> tuple[Tensor, Tensor, Coverage]:
    """Coverage and peak before each row, both (..., T, S), and the coverage at the end.

    The past is one more row at the front, so that the sum is exclusive by shifting: c - a would
    cancel. Without ``every_peak`` the peak is that of the end only, (..., 1, S): a running maximum
    is slow.
    """
    total = torch.cat([before.total.unsqueeze(-2), a], dim=-2).cumsum(-2)
    history = torch.cat([before.peak.unsqueeze(-2), a], dim=-2)
    peak = history.cummax(-2).values if every_peak else history.amax(-2, keepdim=True)
    after = Coverage(total[..., -1, :], peak[..., -1, :])
    return total[..., :-1, :], peak[..., :-1, :] if every_peak else peak, after


def _with_mass_of(a: Tensor, weights: Tensor, protected: Tensor | None) -> Tensor:
    """Scale rows of ``weights`` to the sums of ``a``, both over unprotected positions only.

    A row whose sum is next to nothing, because a protected sink has all, is scaled as well, but by
    a constant: the gradient of the quotient would be infinite times zero, and what it stands for is
    as small as the row.
    """
    if protected is not None:
        a, weights = a.masked_fill(protected, 0), weights.masked_fill(protected, 0)
    mass, have = a.sum(-1, keepdim=True), weights.sum(-1, keepdim=True)
    little = have < least_mass(have.dtype)
    constant = (mass / have.masked_fill(have == 0, 1)).detach()
    return weights * torch.where(little, constant, mass / have.masked_fill(little, 1))


def least_mass(dtype: torch.dtype) -> float:
    """Smallest mass of a row at which the gradient flows through its renormalising: one over its
    square is still finite."""
    return math.sqrt(torch.finfo(dtype).tiny)


def _check_values(attention: Tensor) -> None:
    if not torch.isfinite(attention).all():
        raise ValueError(
            "attention has a NaN or infinite value: look for rows that are masked entirely"
        )
    if (attention < 0).any():
        raise ValueError("attention has a negative value: pass the weights after the softmax")
