"""The polynomials that spare kernels and tiles their logarithms.

What one row of attention a adds at 1 + c = u is s / p ((u + a)^p - u^p), or s ln((u + a) / u) for p
= 0. Kernels, which walk down the rows and carry u^p, write it with x = a / u in [0, 1], or below p
= 0 with v = a / (u + a) in [0, 1/2] (``terms``; native/rule.h). Whole tiles (diminish.py) write it
with the middle m = u + a / 2 and z = a / m in [0, 2/3]; in z it is odd, so half as many terms do
(``odd_terms``, ``even_terms``).
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dwindle.native.vocabulary import TERMS, GainKind, kind_of


@lru_cache(maxsize=64)
def terms(p: float) -> tuple[float, ...]:
    """E(x) / x on [0, 1], E(x) = (1 + x)^p - 1 or ln(1 + x) for p = 0: within 4e-8 for every p in
    [0, 1].

    Below 0: (1 - h) / v on [0, 1/2], h = (1 - v)^(-p / 4), from which rule.h gets E without losing
    digits: within 1e-8 for every p in [-8, 0).
    """
    if kind_of(p) == GainKind.BOUNDED:
        return _fit(lambda v: -math.expm1(-p / 4 * math.log1p(-v)) / v, 0.5, TERMS)
    return _fit(lambda x: (math.expm1(p * math.log1p(x)) if p else math.log1p(x)) / x, 1.0, TERMS)


@lru_cache(maxsize=64)
def odd_terms(p: float, single: bool) -> tuple[float, ...]:
    """((1 + z / 2)^p - (1 - z / 2)^p) / (p z), for p = 0 its limit: coefficients of z^0, z^2 ... on
    [0, 2/3].

    As many as are exact to float32 (``single``) or float64; the same for ``even_terms``.
    """
    return _fit(partial(_odd, p), 4 / 9, _count(p, single))


@lru_cache(maxsize=64)
def few_odd_terms(p: float, error: float) -> tuple[float, ...]:
    """The fewest such coefficients that are within a relative ``error``, for weights that are
    rounded afterwards."""
    places = [1e-6 + i / 199 * (4 / 9 - 1e-6) for i in range(200)]
    for count in range(1, _count(p, single=True)):
        found = _fit(partial(_odd, p), 4 / 9, count)
        fitted = [sum(c * y**i for i, c in enumerate(found)) for y in places]
        if all(abs(f / _odd(p, y) - 1) < error for f, y in zip(fitted, places, strict=True)):
            return found
    return odd_terms(p, single=True)


def _odd(p: float, y: float) -> float:
    z = math.sqrt(y)
    half = math.atanh(z / 2)  # (1 + z / 2)^p = (1 - z^2 / 4)^(p / 2) e^(p half)
    return 2 / z * (math.sinh(p * half) / p * (1 - y / 4) ** (p / 2) if p else half)


@lru_cache(maxsize=64)
def even_terms(p: float, single: bool) -> tuple[float, ...]:
    """((1 + z / 2)^p + (1 - z / 2)^p) / 2: coefficients of z^0, z^2 ... on [0, 2/3]."""

    def value(y: float) -> float:
        z = math.sqrt(y)
        return (math.pow(1 + z / 2, p) + math.pow(1 - z / 2, p)) / 2

    return _fit(value, 4 / 9, _count(p, single))


def _count(p: float, single: bool) -> int:
    """Below p = 0 the powers are steeper and take more terms, one for each step of p by 2."""
    more = math.ceil(-p / 2) + 1 if p < 0 else 0
    return (4 if single else 11) + more


def _fit(f: Callable[[float], float], end: float, count: int) -> tuple[float, ...]:
    """Coefficients of 1, y, y^2 ... of the polynomial through Chebyshev's nodes on [0, end]."""
    y = [end * (1 - math.cos(math.pi * (i + 0.5) / count)) / 2 for i in range(count)]
    with _disable_current_modes():  # who exports a model sees fake tensors, which have no numbers
        powers = torch.tensor(y, dtype=torch.float64)[:, None] ** torch.arange(count)
        values = torch.tensor([f(v) for v in y], dtype=torch.float64)
        return tuple(torch.linalg.solve(powers, values).tolist())
