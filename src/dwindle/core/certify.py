"""``certify``: does a rule have diminishing returns? A proof where there is one, else a search.

Three claims are looked at, one source position at a time:

1. every g is concave and non-decreasing;
2. the effective coverage depends on the total alone and is submodular (Theorem 3.1);
3. the return of the same attention never grows along a sequence (what Theorem 3.2 says of DyDim).

A rule is certified if 1 and 3 hold. Theorem 3.2 is not true of every pair of functions, not even of
the paper's own, so 3 is proved only where the slopes are ordered:

    P never falls and coverage never falls. If g1'(x) <= g2'(x) for all x, then gain1 <= gain2, so a
    growing P moves weight to the smaller of two gains, and both gains shrink because g1 and g2 are
    concave.

Otherwise a counter-example is searched for. It suffices to look at one kind of sequence. Let the
past have n steps with peak P and total c; it can be any point with P <= c <= n P. For a fixed peak
the return falls as the coverage grows, so if a later return is larger, the peak has risen, and it
is largest right after the one step b > P that raised it. So: n steps of at most P, then b, then
compare.
"""

import math
from dataclasses import dataclass, replace
from itertools import groupby

import torch

from dwindle.core.concave import Concave
from dwindle.core.notation import row_rule
from dwindle.core.rules import Dim, DyDim, Plain, RowRule, Rule

Row = tuple[float, ...]  # the attention of one step: to one position, or to it and to the rest

_STEPS = 256
_AMOUNTS = [0.01, 0.02, *(round(0.05 * i, 2) for i in range(1, 21))]
_GROWS = 1 + 1e-9  # a return that grows by less is rounding


@dataclass(frozen=True)
class CounterExample:
    """The same attention returns more after a longer past."""

    past: tuple[Row, ...]
    then: tuple[Row, ...]
    added: Row
    first: float
    later: float

    def __str__(self) -> str:
        digits = next(d for d in range(4, 17) if round(self.first, d) < round(self.later, d))
        return (
            f"attention {_show((self.added,))} after {_show(self.past)} returns "
            f"{self.first:.{digits}f}, "
            f"but after {_show(self.past + self.then)} it returns {self.later:.{digits}f}"
        )


@dataclass(frozen=True)
class Claim:
    """One claim about a rule: whether it holds and why."""

    statement: str
    holds: bool
    proved: bool
    because: str

    def __str__(self) -> str:
        held = "holds" if self.proved else "no counter-example found"
        verdict = held if self.holds else "fails"
        return f"{self.statement}: {verdict}. {self.because}"


@dataclass(frozen=True)
class Certificate:
    """The claims about one rule, each proved, searched or refuted.

    Example:
        >>> certificate = dwindle.certify("dim:log")
        >>> certificate.holds, certificate.counterexample
        (True, None)
    """

    rule: Rule
    concave: Claim
    set_function: Claim
    diminishing: Claim
    counterexample: CounterExample | None

    @property
    def claims(self) -> tuple[Claim, Claim, Claim]:
        return self.concave, self.set_function, self.diminishing

    @property
    def holds(self) -> bool:
        """Concave functions, and no return that grows."""
        return self.concave.holds and self.diminishing.holds

    def __str__(self) -> str:
        verdict = "has diminishing returns" if self.holds else "does NOT have diminishing returns"
        return "\n".join([f"{self.rule} {verdict}", *map(str, self.claims)])


def certify(rule: Rule | str) -> Certificate:
    """Prove that ``rule`` has diminishing returns, or look for a sequence where it has not.

    Args:
        rule: a rule or its notation.

    Returns:
        The certificate. Where the rule is refuted, ``counterexample`` is the shortest sequence
        found.

    Example:
        >>> dwindle.certify("paper:pg-dydim").holds
        False
    """
    rule = row_rule(rule)
    concave = _concave(rule)
    diminishing, example = _diminishing(rule, concave)
    return Certificate(rule, concave, _set_function(rule, concave), diminishing, example)


def _concave(rule: RowRule) -> Claim:
    statement = "Every g is concave and non-decreasing"
    for g in rule.functions:
        if g.boxcox is None and (flaw := _flaw(g)):
            return Claim(statement, False, True, f"{g}: {flaw}.")
    unknown = [str(g) for g in rule.functions if g.boxcox is None]
    if unknown:
        return Claim(
            statement, True, False, f"Looked at {', '.join(unknown)} on a grid up to 10,000."
        )
    if not rule.functions:
        return Claim(statement, True, True, "This rule has no g.")
    slopes = "; ".join(f"{g}: g'(x) = {_slope(g)}" for g in dict.fromkeys(rule.functions))
    return Claim(statement, True, True, f"The slope is positive and never rises: {slopes}.")


def _flaw(g: Concave) -> str | None:
    """A sentence on where a g of unknown form falls or bends upwards; None if it does not."""
    x = torch.cat([torch.linspace(0, 10, 1001), torch.logspace(1, 4, 301)]).double()
    gain = g.gain(x, torch.full_like(x, 0.1))
    if not (gain >= 0).all():
        i = int((~(gain >= 0)).nonzero()[0])
        return f"adding 0.1 at coverage {x[i]:.4g} gains {gain[i]:.4g}"
    rises = (gain[1:] > gain[:-1] * _GROWS).nonzero()
    if len(rises):
        i = int(rises[0])
        return (
            f"adding 0.1 gains {gain[i]:.6g} at coverage {x[i]:.4g} but {gain[i + 1]:.6g} at "
            f"coverage {x[i + 1]:.4g}"
        )
    return None


def _set_function(rule: RowRule, concave: Claim) -> Claim:
    """Theorem 3.1: the weights telescope to F(total). Informative: only Dim as printed has it."""
    statement = "The effective coverage is a submodular function of the total (Theorem 3.1)"
    if rule.renormalise:
        return Claim(statement, False, True, "Renormalised weights depend on the other positions.")
    if rule.share_heads:
        return Claim(
            statement, False, True, "The coverage of a head counts the attention of the others."
        )
    if not (isinstance(rule, Plain | Dim) or (isinstance(rule, DyDim) and rule.g1 == rule.g2)):
        one, other = (_effective(rule, a) for a in ((0.9, 0.1), (0.1, 0.9)))
        if one == other:
            return Claim(
                statement, True, False, f"0.9, 0.1 and 0.1, 0.9 both sum to {one:.4f}; not proved."
            )
        return Claim(
            statement,
            False,
            True,
            f"Order matters: 0.9, 0.1 sums to {one:.4f}; 0.1, 0.9 to {other:.4f}.",
        )
    because = "The differences of Eq. 3 telescope to F(total), and F is concave in a sum."
    return Claim(statement, concave.holds, concave.proved, because)


def _diminishing(rule: RowRule, concave: Claim) -> tuple[Claim, CounterExample | None]:
    statement = "The return of the same attention never grows along a sequence"
    if rule.renormalise and not isinstance(rule, Plain):
        example = _search_rows(rule)
        argument = None
    else:
        argument = _argument(rule, concave)
        example = None if argument else _search(rule)
    if example:
        return Claim(statement, False, True, f"Shortest counter-example found: {example}."), example
    if argument:
        return Claim(statement, True, concave.proved, argument), None
    return Claim(
        statement, True, False, f"Searched sequences of up to {_STEPS} steps; not proved."
    ), None


def _argument(rule: RowRule, concave: Claim) -> str | None:
    """The proof that returns diminish, in one sentence, or None."""
    if isinstance(rule, Plain):
        return "The weight is the attention itself."
    if not concave.holds:
        return None
    if isinstance(rule, Dim):
        return "Coverage never falls, and the gain of a concave g falls as coverage grows."
    if isinstance(rule, DyDim) and rule.g1 == rule.g2:
        return "Both functions are the same, so the gate has no effect."
    if isinstance(rule, DyDim) and rule.g1.boxcox and rule.g2.boxcox:
        (s1, p1), (s2, p2) = rule.g1.boxcox, rule.g2.boxcox
        if s1 <= s2 and p1 <= p2:
            start = "equal" if s1 == s2 else "ordered"
            return (
                f"The slopes are {start} at zero ({s1:.3g} and {s2:.3g}) and g1'(x) <= g2'(x) "
                "ever after, "
                "so a growing gate moves weight to the smaller gain, and both gains fall."
            )
    return None


def _search(rule: RowRule) -> CounterExample | None:
    """The shortest past after which one more, larger attention raises the return: see above."""
    amounts = torch.tensor(_AMOUNTS, dtype=torch.float64)
    # dimensions: added, step b that raises the peak, last step of the past
    added = amounts[:, None, None]
    raised = amounts[None, :, None]
    for steps in range(_STEPS):
        peaks = [0.0] if steps == 0 else _AMOUNTS
        best: CounterExample | None = None
        for peak in peaks:
            # A past of `steps` attentions: all at the peak but the last, which may be smaller.
            last = amounts[amounts <= peak] if 1 < steps <= 8 else torch.tensor([peak]).double()
            total = last + peak * max(steps - 1, 0)
            top = torch.tensor(peak).double()
            first = rule.weigh(added, total.expand(1, 1, -1), top)
            later = rule.weigh(added, total + raised, torch.maximum(raised, top))
            growth = torch.where(
                (raised > peak) & (later > first * _GROWS), later - first, -math.inf
            )
            i, j, k = (int(n) for n in torch.unravel_index(growth.argmax(), growth.shape))
            if growth[i, j, k] > (best.later - best.first if best else 0):
                past = (peak,) * (steps - 1) + (float(last[k]),) * (steps > 0)
                best = CounterExample(
                    tuple((x,) for x in past),
                    ((_AMOUNTS[j],),),
                    (_AMOUNTS[i],),
                    float(first.expand_as(growth)[i, j, k]),
                    float(later[i, j, k]),
                )
        if best:
            return best
    return None


def _search_rows(rule: RowRule) -> CounterExample | None:
    """With renormalisation positions interact: look at two, over one step and then another."""
    share = torch.linspace(0, 1, 11, dtype=torch.float64)
    rows = torch.stack([share, 1 - share], dim=-1)  # (11, 2): a position and the rest
    # all pairs of 11 rows: (121, 1, 2, 2)
    pairs = torch.stack([rows.repeat_interleave(11, 0), rows.repeat(11, 1)], dim=-2)[:, None]
    # protected positions are plain; the question is about the others
    bare = replace(rule, protect=())
    first = bare(pairs[..., 1:, :])[0][:, 0, 0, 0]
    later = bare(pairs)[0][:, 0, 1, 0]
    growth = torch.where(later > first * _GROWS, later - first, -math.inf)
    i = int(growth.argmax())
    if growth[i] == -math.inf:
        return None
    then, added = (tuple(round(x, 2) for x in row) for row in pairs[i, 0].tolist())
    return CounterExample((), (then,), added, float(first[i]), float(later[i]))


def _effective(rule: RowRule, attention: Row) -> float:
    """The sum of the diminished weights of one position."""
    weights, _ = rule(torch.tensor(attention, dtype=torch.float64)[:, None])
    return float(weights.sum())


def _slope(g: Concave) -> str:
    s, p = g.boxcox or (math.nan, math.nan)
    return f"{s:.3g} (1 + x)^{p - 1:.3g}"


def _show(rows: tuple[Row, ...]) -> str:
    """``nothing``; ``0.5``; ``0.2 x 7, 1``; ``(0.5, 0.5)``."""

    def one(row: Row) -> str:
        return f"{row[0]:g}" if len(row) == 1 else f"({', '.join(f'{x:g}' for x in row)})"

    runs = [(one(row), len(list(same))) for row, same in groupby(rows)]
    return ", ".join(text if n == 1 else f"{text} x {n}" for text, n in runs) or "nothing"
