"""Counts of facts in an output: left out, told twice, made up."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """Facts that the output should say: salient facts of an article, words of a sentence."""

    facts: int
    """Facts there are to say."""
    omitted: int
    """Facts that are not said."""
    repeated: int
    """True statements that were made before."""
    invented: int
    """Statements that nothing in the source licenses, near misses among them."""
    strayed: int = 0
    """True statements that should have been left out."""

    @property
    def stated(self) -> int:
        """All statements of the output."""
        return self.facts - self.omitted + self.repeated + self.invented + self.strayed
