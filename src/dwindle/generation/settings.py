"""``DecodingSettings``: the search for outputs. docs/DECODING.md has formulas and origins."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from dwindle.core.notation import rule as parse
from dwindle.models.settings import Copy
from dwindle.settings.purpose import ATTENTION, SEARCH

LengthNorm = Literal["none", "average", "alpha", "gnmt"]
CoveragePenalty = Literal["none", "gnmt", "gehrmann"]
Stopping = Literal["beams", "bound", "top"]
Cut = Literal["ranked", "last"]
Blocking = Literal["tokens", "words"]
Original = Literal["none", "see", "see-port", "captioner", "fairseq"]
_CHOICES = {
    "length_norm": LengthNorm,
    "coverage_penalty": CoveragePenalty,
    "stopping": Stopping,
    "cut": Cut,
    "block_by": Blocking,
    "copy": Copy,
    "search": Original,
}


@dataclass(frozen=True)
class DecodingSettings:
    """All settings of a search. Of a checkpoint's own, only the special tokens are used."""

    beams: int = 4
    """Number of hypotheses kept at each step; 1 is greedy search (default 4)."""
    sample: bool = False
    """Draw each token from the model's distribution. Needs ``beams: 1``."""
    max_length: int = 100
    """Largest number of generated tokens, with the end but not the start token (default 100)."""
    min_length: int = 0
    """Number of tokens that must be generated before the end token is allowed."""
    length_norm: LengthNorm = "alpha"
    """Divisor of the log-probability: ``none``, ``average`` (1 + length, as See), ``alpha``
    (length^alpha) or ``gnmt`` (((5 + length) / 6)^alpha, as Wu et al.)."""
    alpha: float = 1.0
    """Exponent of the length norms ``alpha`` and ``gnmt``, 0 or more; 0 divides by one."""
    stopping: Stopping = "beams"
    """End of the search. ``beams``: after the first ``beams`` finished hypotheses (See, fairseq).
    ``bound``: when no running hypothesis can beat the best finished one. ``top``: when the best
    continuation of a step ends (PreSumm)."""
    cut: Cut = "ranked"
    """Rank of a hypothesis that reaches ``max_length`` without an end: among all others
    (``ranked``) or after them (``last``, as See)."""
    block_ngrams: int = field(default=0, metadata=SEARCH)
    """Forbid that an n-gram of this size occurs twice in an output; 0 is off."""
    block_by: Blocking = field(default="tokens", metadata=SEARCH)
    """Blocked n-grams are of ``tokens``, without the separator of sentences, or of whole ``words``,
    as PreSumm has them."""
    soft_trigrams: float = field(default=0.0, metadata=SEARCH)
    """Penalty of a token, in units of ln 2, for each earlier occurrence of its trigram
    (Melas-Kyriazi: 2); 0 is off."""
    repetition_penalty: float = field(default=1.0, metadata=SEARCH)
    """Factor of the log-probabilities of tokens written before (Keskar et al.); 1 is off."""
    coverage_penalty: CoveragePenalty = field(default="none", metadata=SEARCH)
    """Penalty added to the score for source positions that were attended to too little (``gnmt``)
    or too much (``gehrmann``)."""
    beta: float = field(default=0.0, metadata=SEARCH)
    """Weight of the coverage penalty, 0 or more."""
    stepwise: bool = field(default=False, metadata=SEARCH)
    """Apply the coverage penalty to partial hypotheses too, at every step."""
    temporal: bool = field(default=False, metadata=ATTENTION)
    """Use temporal attention (Paulus et al.) instead of plain attention while decoding."""
    rule: str | None = field(default=None, metadata=ATTENTION)
    """Rule, in notation, for decoding; needs no training. None: the model's own."""
    copy: Copy | None = field(default=None, metadata=ATTENTION)
    """Weights by which a pointer-generator copies, see ``Copy``. None: as it was trained."""
    search: Original = field(default="none", metadata=SEARCH)
    """Follow the search of an original where no option above can say how it differs: See's code
    (``see``) or its PyTorch port (``see-port``), the captioner's or fairseq's. The table of
    docs/DECODING.md has the options that go with each (default ``none``)."""
    batch_size: int = 16
    """Number of sources decoded together (default 16). Outputs do not depend on it."""

    def __post_init__(self) -> None:
        for name, least in (
            ("beams", 1),
            ("max_length", 1),
            ("min_length", 0),
            ("block_ngrams", 0),
            ("batch_size", 1),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"decoding: {name} is {getattr(self, name)}: give {least} or more")
        for name in ("alpha", "beta", "soft_trigrams"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(
                    f"decoding: {name} is {getattr(self, name)}: give a number of 0 or more"
                )
        for name, kind in _CHOICES.items():
            if getattr(self, name) not in (known := get_args(kind)) and (
                name,
                getattr(self, name),
            ) != ("copy", None):
                raise ValueError(
                    f"decoding: {name} is {getattr(self, name)!r}: choose one of {', '.join(known)}"
                )
        if self.min_length >= self.max_length:
            raise ValueError(
                f"decoding: min_length {self.min_length} leaves no room for an end token within "
                f"max_length {self.max_length}: make one smaller or the other larger"
            )
        if not 0 < self.repetition_penalty < float("inf"):
            raise ValueError(
                f"decoding: repetition_penalty is {self.repetition_penalty}: give a number above 0"
            )
        if self.sample and self.beams > 1:
            raise ValueError(
                f"decoding: {self.beams} beams cannot be sampled: give sample or beams, not both"
            )
        if self.block_by == "words" and (self.beams == 1 or not self.block_ngrams):
            raise ValueError(
                "decoding: block_by words drops hypotheses that repeat an n-gram: give "
                "block_ngrams, and more beams"
            )
        if self.search == "captioner" and self.stopping != "bound" and self.beams > 1:
            raise ValueError(
                "decoding: the captioner searches to its greatest length: give stopping: bound"
            )
        if self.rule is not None:
            parse(self.rule)
            if self.temporal:
                raise ValueError(
                    "decoding: temporal attention takes the place of a rule: give temporal or rule"
                )
        self._check_penalty()

    def _check_penalty(self) -> None:
        if self.coverage_penalty == "none":
            if self.beta or self.stepwise:
                raise ValueError(
                    "decoding: beta and stepwise belong to a coverage_penalty: name gnmt or "
                    "gehrmann"
                )
        elif not self.beta:
            raise ValueError(
                f"decoding: the {self.coverage_penalty} coverage_penalty has no weight: give beta"
            )
        elif self.beams == 1:
            raise ValueError(
                "decoding: a coverage_penalty ranks hypotheses, and greedy search has one: give "
                "more beams"
            )
