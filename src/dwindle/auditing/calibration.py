"""Thresholds from scores: the score above which a given share of whole outputs is alarmed.

With outputs that are known to be whole this is conformal prediction. A model's own outputs are not:
some leave something out, and those have the highest scores, so that a threshold above 95 % of all
would spare most of them. How such outputs score is known, from deletions. So the scores S of own
outputs are taken as a mixture,

    S(t) = (1 - pi) S0(t) + pi S1(t),

of whole outputs S0 and of deletions S1, each a share of scores above t. As S0 is not below 0, pi is
at most S(t) / S1(t) for every t. The lowest of these is taken, up to the median of deletions, for
beyond it few scores tell much. The threshold is where S0 is the share asked for. Knows numbers
only.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence

MOST_KEPT = 2000
"""Calibration scores kept of each kind, so that another share of false alarms can be asked for."""
LEAST_SHARE = 1e-9
"""Smallest share of false alarms that can be asked for; it takes a thousand million outputs."""


def check_share(false_alarms: float) -> None:
    """Refuse a number that is not a share, or so small a one that no corpus could tell it."""
    if not LEAST_SHARE <= false_alarms < 1:
        raise ValueError(f"false_alarms={false_alarms}: pass a share between 0 and 1, such as 0.05")


def kept_scores(scores: Sequence[float]) -> list[float]:
    """Calibration scores in rising order; if there are more than are kept, an evenly spread
    selection."""
    rising = sorted(scores)
    step = max(1.0, len(rising) / MOST_KEPT)
    # Rounded up: an item that scores the same as one that was calibrated on must not be above it.
    return [
        math.ceil(rising[int(n * step)] * 1e4) / 1e4 for n in range(min(len(rising), MOST_KEPT))
    ]


def conformal(scores: Sequence[float], share: float) -> float:
    """The threshold that one more score like these exceeds with a probability of at most
    ``share``."""
    rank = math.ceil((len(scores) + 1) * (1 - share) - 1e-9)
    return sorted(scores)[rank - 1] if rank <= len(scores) else math.inf


def share_of_gaps(scores: Sequence[float], deletions: Sequence[float]) -> float:
    """pi: the estimated share of outputs with these scores that left something out, as deletions
    do."""
    tails = ((_above(scores, t), _above(deletions, t)) for t in scores)
    return min((own / deleted for own, deleted in tails if deleted >= 0.5), default=0.0)


def conformal_without_gaps(
    scores: Sequence[float], deletions: Sequence[float], share: float
) -> float:
    """The threshold that a whole output exceeds with a probability of at most ``share``, from
    outputs some of which left something out. Both in rising order. Never above that of
    ``conformal``, and equal to it without deletions."""
    of_all = conformal(scores, share)
    gaps = share_of_gaps(scores, deletions)
    if gaps >= 1:
        return of_all  # deletions do not score higher, so nothing can be learnt from them
    for t in scores:
        above = (_count(scores, t) + 1) / (len(scores) + 1)  # one more score, as in ``conformal``
        if above - gaps * _above(deletions, t) <= share * (1 - gaps) + 1e-9:
            return min(t, of_all)
    return of_all


def _above(rising: Sequence[float], t: float) -> float:
    """The share of scores above t."""
    return _count(rising, t) / len(rising) if rising else 0.0


def _count(rising: Sequence[float], t: float) -> int:
    return len(rising) - bisect_right(rising, t)
