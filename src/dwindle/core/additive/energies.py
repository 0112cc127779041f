"""Energies of additive attention and their gradients, neither of which keeps a tanh: e_i = v .
tanh(k_i + q + w c_i).

Two ways to the same numbers: the C++ of ``native/energies.h`` for float32 and float64 on a CPU,
plain PyTorch for all else. It knows no softmax, no rule and no autograd.

Shapes: B sources, N = B G queries (G in a row look at the same source: beams), S positions, A
columns.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from dwindle.core.coverage import state_dtype
from dwindle.native.functions import KERNEL

_REACH = 20
"""Largest key: e^2k e^2q must be finite. The kernel has the same bound for queries."""


class Terms(NamedTuple):
    """The terms of additive energies, all of one dtype. ``covered`` and ``coverage`` are both given
    or both None."""

    keys: Tensor
    """(B, S, A): k."""
    raised: Tensor | None
    """(B, S, A): e^2k, as ``raised`` computes it."""
    mask: Tensor
    """(B, S), bool: positions that are there. The energy of others means nothing and has no
    gradient."""
    score: Tensor
    """(A,): v."""
    covered: Tensor | None
    """(A,): w."""
    query: Tensor
    """(N, A): q."""
    coverage: Tensor | None
    """(N, S): c."""


class Shared(NamedTuple):
    """Gradients of the terms that all queries share, in float32 or better."""

    keys: Tensor
    """(B, S, A)."""
    score: Tensor
    """(B, A): of each source alone."""
    covered: Tensor
    """(B, A)."""

    @classmethod
    def none(cls, keys: Tensor) -> "Shared":
        """Zeros."""
        dtype = state_dtype(keys)
        column = keys.new_zeros(keys.shape[0], keys.shape[2], dtype=dtype)
        return cls(torch.zeros_like(keys, dtype=dtype), column, column.clone())


def raised(keys: Tensor, mask: Tensor, covered: Tensor | None) -> Tensor | None:
    """e^2k, which the kernel has for all steps; None where it is of no use: with a w, or for keys
    far out."""
    if covered is not None or not KERNEL.do(keys) or not keys.numel():
        return None
    farthest = keys.abs().amax(-1).masked_fill(~mask, 0).max()
    return (2 * keys).exp_() if farthest <= _REACH else None


def energies(terms: Terms) -> Tensor:
    """(N, S), in float32 or better."""
    if not KERNEL.do(terms.keys):
        return _energies(terms)
    out = terms.keys.new_empty(terms.query.shape[0], terms.keys.shape[1])
    _call("energies", terms, out)
    return out


def gradients(terms: Terms, energy: Tensor) -> tuple[Tensor, Tensor | None]:
    """Gradients of the query (N, A) and the coverage (N, S), given that of the energies (N, S)."""
    if not KERNEL.do(terms.keys):
        return _gradients(terms, energy)
    query = torch.empty_like(terms.query)
    coverage = None if terms.coverage is None else torch.empty_like(terms.coverage)
    _call("gradients", terms, energy.contiguous(), query, coverage)
    return query, coverage


def shared_gradients(terms: Terms, energy: Tensor) -> Shared:
    """Gradients of all other terms. ``terms`` may have the queries of many steps at once."""
    shared = Shared.none(terms.keys)
    if not KERNEL.do(terms.keys):
        _share(terms, energy, shared)
    else:
        _call("shared", terms, energy.contiguous(), *shared)
    return shared


def by_source(x: Tensor, keys: Tensor) -> Tensor:
    """(N, ...) -> (B, G, ...)."""
    return x.reshape(keys.shape[0], -1, *x.shape[1:])


def _call(name: str, terms: Terms, *more: Tensor | None) -> None:
    """The function of ``additive.cpp`` with this name: sizes, terms in the order it has them, and
    ``more``."""
    (sources, positions, columns), queries = terms.keys.shape, terms.query.shape[0]
    keys, raised, mask, score, covered, query, coverage = terms
    arrays = keys, raised, query, score, covered, coverage, mask, *more
    KERNEL(name, keys.dtype, (sources, queries // sources, positions, columns), arrays)


def _doubled(terms: Terms) -> Tensor:
    """(B, G, S, A): twice the argument of the tanh. tanh(z) = 2 sigmoid(2z) - 1, and a sigmoid
    takes a third of the time."""
    keys, _, _, _, covered, query, coverage = terms
    inner = keys.unsqueeze(1) + by_source(query, keys).unsqueeze(2)
    if covered is not None and coverage is not None:
        inner = inner + by_source(coverage, keys).unsqueeze(-1) * covered
    return inner.mul_(2)


def _energies(terms: Terms) -> Tensor:
    rising = _doubled(terms).sigmoid_()
    energy = 2 * (rising @ terms.score) - terms.score.sum()
    return energy.flatten(0, 1).to(state_dtype(energy))


def _gradients(terms: Terms, energy: Tensor) -> tuple[Tensor, Tensor | None]:
    _, inner = _slopes(terms, by_source(energy, terms.keys))
    query = inner.sum(2).flatten(0, 1)
    if terms.covered is None:
        return query, None
    return query, (inner @ terms.covered).flatten(0, 1)


def _share(terms: Terms, energy: Tensor, shared: Shared) -> None:
    """One query of each source at a time: those of all steps together are too many."""
    queries, energies = by_source(terms.query, terms.keys), by_source(energy, terms.keys)
    coverages = None if terms.coverage is None else by_source(terms.coverage, terms.keys)
    for n in range(queries.shape[1]):
        coverage = None if coverages is None else coverages[:, n]
        height, inner = _slopes(
            terms._replace(query=queries[:, n], coverage=coverage), energies[:, n : n + 1]
        )
        shared.score.add_(height.sum((1, 2)))
        shared.keys.add_(inner.sum(1))
        if coverage is not None:
            shared.covered.add_((inner.squeeze(1) * coverage.unsqueeze(-1)).sum(1))


def _slopes(terms: Terms, energy: Tensor) -> tuple[Tensor, Tensor]:
    """(B, G, S, A) each: the tanh, and the gradient of its argument, both times the gradient of the
    energies (B, G, S)."""
    height = _doubled(terms).sigmoid_().mul_(2).sub_(1)
    given = energy.to(height.dtype).masked_fill(~terms.mask.unsqueeze(1), 0).unsqueeze(-1)
    return height * given, given * terms.score * (1 - height.square())
