"""The model part of a recipe. Needs none of the libraries that models are made with."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from dwindle.core.notation import rule as parse
from dwindle.settings.purpose import ATTENTION

Kind = Literal["pointer-generator", "transformer", "bertsum", "bart", "top-down", "lead-3"]
Copy = Literal["plain", "renormalised", "alone"]
"""The weights that a pointer-generator copies by. ``plain``: its attention. ``renormalised``: the
diminished weights, scaled to sum to one. ``alone``: the same, while the context vector keeps plain
attention."""
WordPiece = Literal["spaces", "bert"]
"""Separators of words before WordPiece cuts them. ``spaces``: spaces alone, as PreSumm's data was
made, so that ``u.s.`` is ``u ##. ##s ##.``. ``bert``: as BERT's own tokenizer, also punctuation,
accents removed: ``u . s .``."""
SUBWORDS = ("transformer", "bart", "bertsum")
"""The kinds that read and write subwords."""


@dataclass(frozen=True)
class ModelSettings:
    """The model part of a recipe."""

    kind: Kind
    """Family of the model: ``pointer-generator``, ``transformer``, ``bertsum``, ``bart``,
    ``top-down`` or ``lead-3``."""
    start: str | None = None
    """Folder or hub name of a saved model, for weights and vocabulary. None: a new model."""
    size: str = "base"
    """Size of a new model: ``tiny``, ``small``, ``medium``, ``base`` or ``big``; a kind may have
    fewer sizes."""
    vocabulary: int = 32000
    """Largest number of words or subwords in a new vocabulary (default 32,000)."""
    pieces: str | None = None
    """File that says how words are split, instead of a new vocabulary: codes of subword-nmt, or a
    SentencePiece ``.model``."""
    wordpiece: WordPiece | None = None
    """BertSum: what separates words before WordPiece, see ``WordPiece``. None: as its start was
    saved, and ``spaces`` if it starts from a BERT."""
    dropout: float | None = None
    """Dropout of a new model, from 0 to below 1. None: that of its size."""
    source_length: int = 512
    """Largest number of source tokens (for ``top-down``, of regions); the rest is cut off."""
    target_length: int = 128
    """Largest number of target tokens in training; the rest is cut off."""
    coverage: bool = field(default=False, metadata=ATTENTION)
    """Pointer-generator: use See's coverage vector. If ``start`` has none, its weights are new."""
    copy: Copy = field(default="plain", metadata=ATTENTION)
    """Pointer-generator: weights that it copies by, see ``Copy`` (default ``plain``)."""
    rule: str = field(default="plain", metadata=ATTENTION)
    """Rule of the attention, in the notation of ``dwindle.rule`` (default ``plain``)."""
    layers: int | None = field(default=None, metadata=ATTENTION)
    """Number of last cross-attention layers that have the rule. None: as in the paper, 7 in BART
    and 1 elsewhere."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(
                f"kind={self.kind!r} is unknown: pass one of {', '.join(get_args(Kind))}"
            )
        if min(self.source_length, self.target_length) < 2:
            raise ValueError(
                f"lengths of {self.source_length} and {self.target_length} tokens: pass 2 or more "
                "each"
            )
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout}: pass a number of at least 0 and below 1")
        if (self.coverage or self.copy != "plain") and self.kind != "pointer-generator":
            raise ValueError(
                f"coverage and copy are the pointer-generator's, and this is a {self.kind}: leave "
                "them out"
            )
        if self.wordpiece and self.kind != "bertsum":
            raise ValueError(f"wordpiece is BertSum's, and this is a {self.kind}: leave it out")
        if self.pieces and (self.start or self.kind not in SUBWORDS):
            raise ValueError(
                "pieces are the vocabulary of a new transformer, bart or bertsum: leave them out"
            )
        parse(self.rule)
