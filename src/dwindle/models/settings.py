"""The model part of a recipe. Needs none of the libraries that models are made with."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from dwindle.core.notation import rule as parse
from dwindle.folder.purpose import ATTENTION

Kind = Literal["pointer-generator", "transformer", "bertsum", "bart", "top-down", "lead-3"]
Copy = Literal["plain", "renormalised"]
SUBWORDS = ("transformer", "bart", "bertsum")
"""The kinds that read and write subwords."""


@dataclass(frozen=True)
class ModelSettings:
    """The model part of a recipe."""

    kind: Kind
    """Which family."""
    start: str | None = None
    """Where weights and vocabulary come from: a saved model's folder, a name on the hub; none for new ones."""
    size: str = "base"
    """The size of a new model: tiny, small, medium, base or big, as its kind has them."""
    vocabulary: int = 32000
    """The most tokens or words that a new vocabulary has."""
    pieces: str | None = None
    """A file that says how words are cut, in place of a new vocabulary: codes of subword-nmt, or a SentencePiece
    ``.model``."""
    dropout: float | None = None
    """The dropout of a new model. None: its size's own."""
    source_length: int = 512
    """The longest source in tokens, the rest is cut; for top-down the most regions."""
    target_length: int = 128
    """The longest target of training in tokens, the rest is cut."""
    coverage: bool = field(default=False, metadata=ATTENTION)
    """Pointer-generator: See's coverage vector. A start without it gets it with new weights."""
    copy: Copy = field(default="plain", metadata=ATTENTION)
    """Pointer-generator: what it copies by, its attention or the diminished weights scaled to sum to one."""
    rule: str = field(default="plain", metadata=ATTENTION)
    """The rule, in notation."""
    layers: int | None = field(default=None, metadata=ATTENTION)
    """How many of the last cross-attention layers have the rule. None: as in the paper, 7 in BART and else 1."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind={self.kind!r} is unknown: pass one of {', '.join(get_args(Kind))}")
        if min(self.source_length, self.target_length) < 2:
            raise ValueError(f"lengths of {self.source_length} and {self.target_length} tokens: pass 2 or more each")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout}: pass a number of at least 0 and below 1")
        if (self.coverage or self.copy != "plain") and self.kind != "pointer-generator":
            raise ValueError(
                f"coverage and copy are the pointer-generator's, and this is a {self.kind}: leave them out"
            )
        if self.pieces and (self.start or self.kind not in SUBWORDS):
            raise ValueError("pieces are the vocabulary of a new transformer, bart or bertsum: leave them out")
        parse(self.rule)
