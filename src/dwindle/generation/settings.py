"""``DecodingSettings``: how outputs are searched for. docs/DECODING.md has every formula and its origin."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from dwindle.folder.purpose import ATTENTION, SEARCH

LengthNorm = Literal["none", "average", "alpha", "gnmt"]
CoveragePenalty = Literal["none", "gnmt", "gehrmann"]
Stopping = Literal["beams", "bound", "top"]
Cut = Literal["ranked", "last"]
Blocking = Literal["tokens", "words"]
_CHOICES = {
    "length_norm": LengthNorm,
    "coverage_penalty": CoveragePenalty,
    "stopping": Stopping,
    "cut": Cut,
    "block_by": Blocking,
}


@dataclass(frozen=True)
class DecodingSettings:
    """They alone decide: what a checkpoint says of decoding does not count, but for its special tokens."""

    beams: int = 4
    """Hypotheses kept at each step; 1 is greedy."""
    sample: bool = False
    """Draw each token from the model's distribution; with one beam only."""
    max_length: int = 100
    """Generated tokens at most, the end token among them, the start token not."""
    min_length: int = 0
    """Generated tokens before the end token is allowed."""
    length_norm: LengthNorm = "alpha"
    """What log-probability is divided by: nothing, 1 + length (See), length^alpha, or ((5 + length) / 6)^alpha (Wu)."""
    alpha: float = 1.0
    """The exponent of ``alpha`` and ``gnmt``; 0 divides by one."""
    stopping: Stopping = "beams"
    """Stop at the first ``beams`` finished hypotheses (See, fairseq); when no running one can beat the best finished
    one (bound); or when the best continuation of a step ends (top: PreSumm)."""
    cut: Cut = "ranked"
    """What reaches ``max_length`` without an end is ranked like all others, or after all that have ended (See)."""
    block_ngrams: int = field(default=0, metadata=SEARCH)
    """No n-gram of this size twice in an output; 0: off."""
    block_by: Blocking = field(default="tokens", metadata=SEARCH)
    """N-grams of tokens, the separator of sentences not seen; or of whole words, separators among them (PreSumm)."""
    soft_trigrams: float = field(default=0.0, metadata=SEARCH)
    """A token loses this times ln 2 for each time its trigram was written before (Melas-Kyriazi: 2); 0: off."""
    repetition_penalty: float = field(default=1.0, metadata=SEARCH)
    """Log-probabilities of tokens that were written before are multiplied by it (Keskar); 1: off."""
    coverage_penalty: CoveragePenalty = field(default="none", metadata=SEARCH)
    """Added to the score: for source positions attended too little (Wu) or too much (Gehrmann)."""
    beta: float = field(default=0.0, metadata=SEARCH)
    """The weight of the coverage penalty."""
    stepwise: bool = field(default=False, metadata=SEARCH)
    """Rank partial hypotheses by the score with the penalty too, at every step."""
    temporal: bool = field(default=False, metadata=ATTENTION)
    """Temporal attention (Paulus) in place of plain attention, while decoding."""
    batch_size: int = 16
    """Sources decoded together. It changes no output."""

    def __post_init__(self) -> None:
        for name, least in (("beams", 1), ("max_length", 1), ("min_length", 0), ("block_ngrams", 0), ("batch_size", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"decoding: {name} is {getattr(self, name)}: give {least} or more")
        for name in ("alpha", "beta", "soft_trigrams"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"decoding: {name} is {getattr(self, name)}: give a number of 0 or more")
        for name, kind in _CHOICES.items():
            if getattr(self, name) not in (known := get_args(kind)):
                raise ValueError(f"decoding: {name} is {getattr(self, name)!r}: choose one of {', '.join(known)}")
        if self.min_length >= self.max_length:
            raise ValueError(
                f"decoding: min_length {self.min_length} leaves no room for an end token within max_length "
                f"{self.max_length}: make one smaller or the other larger"
            )
        if not 0 < self.repetition_penalty < float("inf"):
            raise ValueError(f"decoding: repetition_penalty is {self.repetition_penalty}: give a number above 0")
        if self.sample and self.beams > 1:
            raise ValueError(f"decoding: {self.beams} beams cannot be sampled: give sample or beams, not both")
        if self.block_by == "words" and (self.beams == 1 or not self.block_ngrams):
            raise ValueError(
                "decoding: block_by words drops hypotheses that repeat an n-gram: give block_ngrams, and more beams"
            )
        self._check_penalty()

    def _check_penalty(self) -> None:
        if self.coverage_penalty == "none":
            if self.beta or self.stepwise:
                raise ValueError("decoding: beta and stepwise belong to a coverage_penalty: name gnmt or gehrmann")
        elif not self.beta:
            raise ValueError(f"decoding: the {self.coverage_penalty} coverage_penalty has no weight: give beta")
        elif self.beams == 1:
            raise ValueError(
                "decoding: a coverage_penalty ranks hypotheses, and greedy search has one: give more beams"
            )
