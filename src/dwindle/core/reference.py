"""The paper's equations as slow loops, one line each: what the tests compare everything else with.

``a`` is one (T, S) matrix of attention: ``a[t, i]`` is the attention of step t to source position
i. No batch, no heads, no care for speed or cancellation: give it float64. Used by tests only.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from dwindle.core.concave import Concave

Weight = Callable[[Tensor, int, int], Tensor]


def coverage(a: Tensor, i: int, t: int) -> Tensor:
    """c_i^t, the sum up to and including step t (section 3.1, footnote)."""
    return sum((a[u, i] for u in range(t + 1)), start=a.new_zeros(()))


def submodular_coverage(g: Concave, a: Tensor, i: int, t: int) -> Tensor:
    """F(A_i^t) = g(c_i^t) + b with b = -g(0) (Eq. 2)."""
    return g.value(coverage(a, i, t)) - g.value(a.new_zeros(()))


def dim(g: Concave, a: Tensor, i: int, t: int) -> Tensor:
    """DimAttn_i^t = F(A_i^t) - F(A_i^{t-1}) (Eq. 3)."""
    return submodular_coverage(g, a, i, t) - submodular_coverage(g, a, i, t - 1)


def gate(a: Tensor, i: int, t: int) -> Tensor:
    """P_i^t = max(A_i^{t-1}), and 0 for the empty set."""
    return torch.stack([a[u, i] for u in range(t)]).cummax(0).values[-1] if t else a.new_zeros(())


def dydim(g1: Concave, g2: Concave, a: Tensor, i: int, t: int) -> Tensor:
    """DyDimAttn_i^t = P [F1 difference] + (1 - P) [F2 difference] (Eq. 5)."""
    return gate(a, i, t) * dim(g1, a, i, t) + (1 - gate(a, i, t)) * dim(g2, a, i, t)


def effective_coverage(weight: Weight, a: Tensor, i: int, t: int) -> Tensor:
    """ec_i^t, the sum of the diminished weights up to step t (Eq. 4)."""
    return sum((weight(a, i, u) for u in range(t + 1)), start=a.new_zeros(()))


def rows(weight: Weight, a: Tensor) -> Tensor:
    """All weights of a (T, S) attention, as a (T, S) tensor."""
    steps, positions = a.shape
    return torch.stack(
        [torch.stack([weight(a, i, t) for i in range(positions)]) for t in range(steps)]
    )
