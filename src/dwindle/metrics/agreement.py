"""Statistics of a human comparison: the exact sign test, pairwise agreement, Krippendorff's alpha.
Knows only counts and labels."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction


def sign_test(wins: int, losses: int) -> float:
    """Two-sided exact p-value that wins and losses come from a fair coin; ties must be left out.

    p = min(1, 2 P(X <= min(wins, losses))) with X binomial(wins + losses, 1/2), summed in whole
    numbers.
    """
    if wins < 0 or losses < 0:
        raise ValueError(f"{wins} wins and {losses} losses: counts cannot be negative")
    n = wins + losses
    term, tail = 1, 0
    for k in range(min(wins, losses) + 1):
        tail += term
        term = term * (n - k) // (k + 1)
    return float(min(Fraction(1), Fraction(2 * tail, 2**n)))


def pairwise_agreement(units: Sequence[Sequence[Hashable]]) -> float:
    """Mean over units of the share of pairs of raters that gave the same label, in 0..1.

    Units with one label or none have no pair and are not evidence; if there are no others, there is
    no agreement to measure.
    """
    shares = []
    for labels in units:
        pairs = math.comb(len(labels), 2)
        if pairs:
            shares.append(sum(math.comb(count, 2) for count in Counter(labels).values()) / pairs)
    if not shares:
        raise ValueError("no unit has two labels: agreement needs at least two raters on one unit")
    return math.fsum(shares) / len(shares)


def krippendorff_alpha(units: Sequence[Sequence[Hashable]]) -> float:
    """Krippendorff's alpha for unordered labels: 1 - observed / expected disagreement; 1 is
    perfect, 0 is chance.

    Units may have different numbers of labels; those with fewer than two are left out, as the
    definition says. When only one label is ever used, alpha is not defined.
    """
    paired = [Counter(labels) for labels in units if len(labels) > 1]
    totals: Counter[Hashable] = Counter()
    for counts in paired:
        totals.update(counts)
    n = totals.total()
    if n == 0:
        raise ValueError("no unit has two labels: alpha needs at least two raters on one unit")
    if len(totals) < 2:
        raise ValueError(
            "every rater gave the same label everywhere: alpha is not defined without variation"
        )
    observed = math.fsum(
        sum(c * (counts.total() - c) for c in counts.values()) / (counts.total() - 1)
        for counts in paired
    )
    expected = sum(c * (n - c) for c in totals.values()) / (n - 1)
    return 1 - observed / expected


_Z = 1.959963984540054  # the normal quantile of a 95 % interval


def wilson(share: float, n: float) -> tuple[float, float]:
    """The 95 % score interval of a share seen in ``n`` judgements."""
    middle = share + _Z * _Z / (2 * n)
    half = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
    scale = 1 + _Z * _Z / n
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
