"""The polynomials that spare kernels and tiles their logarithms.

What one row of attention a adds at 1 + c = u is s / p ((u + a)^p - u^p), or s ln((u + a) / u) for p = 0. Kernels,
which walk down the rows and carry u^p, write it with x = a / u in [0, 1] (``terms``; cpu/rule.h). Whole tiles
(diminish.py) write it with the middle m = u + a / 2 and z = a / m in [0, 2/3]; in z it is odd, so half as many
terms do (``odd_terms``, ``even_terms``).
"""

import math
from collections.abc import Callable
from functools import lru_cache

import torch

TERMS = 9


@lru_cache(maxsize=64)
def terms(p: float) -> tuple[float, ...]:
    """E(x) / x on [0, 1], E(x) = (1 + x)^p - 1 or ln(1 + x) for p = 0: within 4e-8 for every p in [0, 1]."""
    return _fit(lambda x: (math.expm1(p * math.log1p(x)) if p else math.log1p(x)) / x, 1.0, TERMS)


@lru_cache(maxsize=64)
def odd_terms(p: float, count: int) -> tuple[float, ...]:
    """((1 + z / 2)^p - (1 - z / 2)^p) / (p z), for p = 0 its limit: coefficients of z^0, z^2 ... on [0, 2/3]."""

    def value(y: float) -> float:
        z = math.sqrt(y)
        half = math.atanh(z / 2)  # (1 + z / 2)^p = (1 - z^2 / 4)^(p / 2) e^(p half)
        return 2 / z * (math.sinh(p * half) / p * (1 - y / 4) ** (p / 2) if p else half)

    return _fit(value, 4 / 9, count)


@lru_cache(maxsize=64)
def even_terms(p: float, count: int) -> tuple[float, ...]:
    """((1 + z / 2)^p + (1 - z / 2)^p) / 2: coefficients of z^0, z^2 ... on [0, 2/3]."""
    return _fit(lambda y: ((1 + math.sqrt(y) / 2) ** p + (1 - math.sqrt(y) / 2) ** p) / 2, 4 / 9, count)


def _fit(f: Callable[[float], float], end: float, count: int) -> tuple[float, ...]:
    """Coefficients of 1, y, y^2 ... of the polynomial through Chebyshev's nodes on [0, end]."""
    y = [end * (1 - math.cos(math.pi * (i + 0.5) / count)) / 2 for i in range(count)]
    powers = torch.tensor(y, dtype=torch.float64)[:, None] ** torch.arange(count)
    return tuple(torch.linalg.solve(powers, torch.tensor([f(v) for v in y], dtype=torch.float64)).tolist())
