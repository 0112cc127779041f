"""The concave functions g that turn coverage into diminishing returns (Eq. 2).

Each g is one small frozen dataclass with three methods: ``value`` (g as the paper prints it),
``slope`` (its derivative) and ``gain`` (the marginal gain, in a form that keeps its digits). This
module knows numbers only: nothing of attention, time or heads.

**To add a g**: write one more subclass of ``Concave`` with the three methods and its ``examples``.
The notation (``dwindle.rule("dim:yours(0.3)")``), ``dwindle rules`` and the test matrix then find
it.

All of the paper's functions are one family. Their slope is ``s * (1 + x)^(p - 1)``: Box-Cox
functions of exponent p, stretched by s. ``Concave.boxcox`` says so, for proofs and for kernels that
need only (s, p).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch import Tensor

# Below this exponent ((1 + x)^p - 1)/p is log(1 + x) to the last digit of a float64, and p * log
# underflows.
_IS_LOG = 1e-12


@dataclass(frozen=True)
class Concave(ABC):
    """A concave, non-decreasing function on [0, inf).

    Example:
        >>> g = dwindle.Log()
        >>> covered, added = torch.tensor([0.0, 1.0, 7.0]), torch.tensor(1.0)
        >>> [round(gain, 3) for gain in g.gain(covered, added).tolist()]  # less and less
        [0.693, 0.405, 0.118]
    """

    examples: ClassVar[tuple[tuple[float, ...], ...]] = ((),)
    """Parameters of a few typical members: what tests and ``dwindle rules`` show."""

    @abstractmethod
    def value(self, x: Tensor) -> Tensor:
        """g(x), as printed. The submodular coverage is F = g(x) - g(0) (Eq. 2)."""

    @abstractmethod
    def slope(self, x: Tensor) -> Tensor:
        """g'(x)."""

    @abstractmethod
    def gain(self, covered: Tensor, added: Tensor) -> Tensor:
        """g(covered + added) - g(covered) (Eq. 3), without ever subtracting two values of g.

        The plain difference cancels: in bfloat16 nothing of it is left at a coverage of a few
        units.
        """

    @property
    @abstractmethod
    def formula(self) -> str:
        """g(x) for a human reader."""

    @property
    def boxcox(self) -> tuple[float, float] | None:
        """(s, p) if the slope is exactly s * (1 + x)^(p - 1), else None."""
        return None

    @property
    def limit(self) -> float:
        """A number that g(x) - g(0) approaches and never exceeds; infinity if there is none."""
        return math.inf

    def __str__(self) -> str:
        """The name in the notation of rules: ``log``, ``log(2.2)``, ``power(0.65)``."""
        values = [getattr(self, f.name) for f in fields(self)]
        name = type(self).__name__.lower()
        if values == [f.default for f in fields(self)]:
            return name
        return f"{name}({','.join(_number(v) for v in values)})"


@dataclass(frozen=True)
class Identity(Concave):
    """g(x) = x: plain attention, as the special case that costs nothing and is exact.

    Example:
        >>> dwindle.Identity().gain(torch.tensor([0.0, 9.0]), torch.tensor([0.5, 0.5])).tolist()
        [0.5, 0.5]
    """

    def value(self, x: Tensor) -> Tensor:
        return x

    def slope(self, x: Tensor) -> Tensor:
        return torch.ones_like(x)

    def gain(self, covered: Tensor, added: Tensor) -> Tensor:
        return added

    @property
    def formula(self) -> str:
        return "x"

    @property
    def boxcox(self) -> tuple[float, float]:
        return 1.0, 1.0


@dataclass(frozen=True)
class Log(Concave):
    """g(x) = log_base(1 + x). The base is a scale only: the slope is 1 / ((1 + x) ln base).

    Example:
        >>> dwindle.Log(base=2).value(torch.tensor([0.0, 1.0, 3.0])).tolist()
        [0.0, 1.0, 2.0]
    """

    base: float = math.e
    examples: ClassVar = ((), (2.2,), (1.9,))

    def __post_init__(self) -> None:
        if not 1 < self.base < math.inf:
            raise ValueError(
                f"the base of a log must be above 1 and finite, not {self.base}: try log(2)"
            )

    def value(self, x: Tensor) -> Tensor:
        return torch.log1p(x) / math.log(self.base)

    def slope(self, x: Tensor) -> Tensor:
        return 1 / ((1 + x) * math.log(self.base))

    def gain(self, covered: Tensor, added: Tensor) -> Tensor:
        return torch.log1p(added / (1 + covered)) / math.log(self.base)

    @property
    def formula(self) -> str:
        return "ln(1 + x)" if self.base == math.e else f"log_{_number(self.base)}(1 + x)"

    @property
    def boxcox(self) -> tuple[float, float]:
        return 1 / math.log(self.base), 0.0


@dataclass(frozen=True)
class Power(Concave):
    """g(x) = (1 + x)^exponent, as the paper prints it: its slope at 0 is the exponent, not 1.

    Example:
        >>> dwindle.Power(0.5).value(torch.tensor([0.0, 3.0])).tolist()
        [1.0, 2.0]
    """

    exponent: float
    examples: ClassVar = ((0.5,), (0.65,), (1.0,))

    def __post_init__(self) -> None:
        if not 0 < self.exponent <= 1:
            raise ValueError(
                f"the exponent of a power must be in (0, 1], not {self.exponent}: try power(0.5)"
            )

    def value(self, x: Tensor) -> Tensor:
        return (1 + x) ** self.exponent

    def slope(self, x: Tensor) -> Tensor:
        return self.exponent * (1 + x) ** (self.exponent - 1)

    def gain(self, covered: Tensor, added: Tensor) -> Tensor:
        return _power_gain(self.exponent, covered, added)

    @property
    def formula(self) -> str:
        return f"(1 + x)^{_number(self.exponent)}"

    @property
    def boxcox(self) -> tuple[float, float]:
        return self.exponent, self.exponent


@dataclass(frozen=True)
class BoxCox(Concave):
    """g(x) = ((1 + x)^p - 1) / p: slope 1 at 0 for every p, so it diminishes without rescaling.

    One dial from plain attention (p = 1, exactly) through the logarithm (p = 0, exactly) to
    functions that are bounded: below p = 0 a position gives less than ``1 / |p|`` in all its life,
    however often it is attended to.

    Example:
        >>> dwindle.BoxCox(-1.0).value(torch.tensor([0.0, 1.0, 999.0])).tolist()
        [0.0, 0.5, 0.9990000128746033]
    """

    p: float
    examples: ClassVar = ((-4.0,), (-1.0,), (0.0,), (0.5,), (0.8,), (1.0,))

    def __post_init__(self) -> None:
        if not -math.inf < self.p <= 1:
            raise ValueError(
                f"the p of a boxcox must be a number of at most 1, not {self.p}: try boxcox(-1)"
            )

    def value(self, x: Tensor) -> Tensor:
        return self.gain(torch.zeros_like(x), x)

    def slope(self, x: Tensor) -> Tensor:
        return (1 + x) ** (self.p - 1)

    def gain(self, covered: Tensor, added: Tensor) -> Tensor:
        if abs(self.p) < _IS_LOG:
            return Log().gain(covered, added)
        return _power_gain(self.p, covered, added) / self.p

    @property
    def formula(self) -> str:
        if self.p == 0:
            return "ln(1 + x)"
        p = _number(abs(self.p))
        return f"((1 + x)^{p} - 1) / {p}" if self.p > 0 else f"(1 - (1 + x)^-{p}) / {p}"

    @property
    def limit(self) -> float:
        return -1 / self.p if self.p < 0 else math.inf

    @property
    def boxcox(self) -> tuple[float, float]:
        return 1.0, self.p


def _power_gain(p: float, covered: Tensor, added: Tensor) -> Tensor:
    """(1 + covered + added)^p - (1 + covered)^p."""
    if p == 1:
        return added
    return (1 + covered) ** p * torch.expm1(p * torch.log1p(added / (1 + covered)))


def functions() -> dict[str, type[Concave]]:
    """Every known g by its name in the notation, those of the user included."""
    return {cls.__name__.lower(): cls for cls in Concave.__subclasses__()}


def _number(x: float) -> str:
    """The shortest text that reads back as x: 0.65, 2, 1e-05."""
    return repr(float(x)).removesuffix(".0")
