"""``Difference``: a system minus the base, by one metric. The same for whoever tests, keeps, prints
or draws it."""

from dataclasses import dataclass

from dwindle.metrics.catalogue import kind
from dwindle.metrics.table import Cell, Tone, p_value


@dataclass(frozen=True)
class Difference:
    """With a 95 % interval and a two-sided p, before and after Holm's correction across systems;
    each is None where nothing was tested."""

    metric: str
    difference: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    wins: float | None = None
    """Share of resamples in which the system is better (higher, for a metric without direction)."""
    seeds: tuple[float, ...] = ()
    """The difference of each pair of seeds."""

    @property
    def clear(self) -> bool:
        """True if zero lies outside the interval, and the corrected p, if any, is below 0.05."""
        outside = self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)
        return outside and (self.p_holm is None or self.p_holm < 0.05)

    @property
    def tone(self) -> Tone:
        """``better`` or ``worse`` if the difference is clear, else empty: its colour."""
        good = self.difference * kind(self.metric).better
        return "" if not self.clear or not good else "better" if good > 0 else "worse"

    @property
    def text(self) -> str:
        return kind(self.metric).text(self.difference, sign=True)

    @property
    def interval(self) -> str:
        """The interval as text; empty where nothing was tested."""
        return (
            ""
            if self.low is None or self.high is None
            else kind(self.metric).interval(self.low, self.high)
        )

    @property
    def cell(self) -> Cell:
        """The difference with its interval and its p-value."""
        said = "not tested" if self.p_holm is None else p_value(self.p_holm)
        return Cell(self.text, ",\n".join(filter(None, (self.interval, said))), self.tone)
