"""The numbers that describe a rule to a kernel, defined once for Python, C++ and Triton.

Python and Triton import them; ``header`` writes them as the ``vocabulary.h`` that every build of
the C++ includes. It knows nothing but names and numbers and imports neither torch nor dwindle: the
build of a wheel has neither.
"""

from enum import IntEnum
from typing import NamedTuple

TERMS = 9
"""Number of coefficients of the polynomial of one function g (``polynomial.terms``)."""


class Mode(IntEnum):
    """Number of functions g of a rule."""

    PLAIN = 0
    DIM = 1
    DYDIM = 2


class GainKind(IntEnum):
    """Form of one function g, whose slope is s (1 + x)^(p - 1): each has code of its own. ``Kind``
    in C++."""

    NONE = 0
    """The rule has no such function."""
    LOG = 1
    """p = 0."""
    POWER = 2
    """p > 0."""
    BOUNDED = 3
    """p < 0."""


def kind_of(p: float) -> GainKind:
    """The form of the function with exponent p."""
    if p == 0:
        return GainKind.LOG
    return GainKind.POWER if p > 0 else GainKind.BOUNDED


class KernelNumbers(NamedTuple):
    """A rule of Box-Cox functions, whose slope is s (1 + x)^(p - 1), as kernels take it."""

    mode: Mode
    s1: float = 1.0
    p1: float = 1.0
    s2: float = 1.0
    p2: float = 1.0
    detach_gate: bool = False

    @property
    def kinds(self) -> tuple[GainKind, GainKind]:
        """The forms of g1 and g2."""
        first = GainKind.NONE if self.mode == Mode.PLAIN else kind_of(self.p1)
        return first, kind_of(self.p2) if self.mode == Mode.DYDIM else GainKind.NONE


RULE = (*KernelNumbers._fields, "renormalise", "share_heads", "kind1", "kind2")
"""The numbers of a rule in the order in which C++ reads them, before the terms of both
polynomials."""


def header() -> str:
    """The text of ``vocabulary.h``."""
    enums = [
        f"enum {name} {{ {', '.join(f'{word.name} = {word.value}' for word in words)} }};"
        for name, words in (("Mode", Mode), ("Kind", GainKind))
    ]
    return "\n".join(
        [
            "// Written from vocabulary.py, where the words are explained.",
            "#pragma once",
            "namespace dwindle {",
            *enums,
            f"constexpr int TERMS = {TERMS};",
            f"struct RuleNumbers {{ double {', '.join(RULE)}, terms1[TERMS], terms2[TERMS]; }};",
            "}  // namespace dwindle",
            "",
        ]
    )
