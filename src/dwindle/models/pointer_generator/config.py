"""The settings of a pointer-generator. The defaults are See's."""

from typing import Any, get_args

from dwindle.core.notation import row_rule
from dwindle.core.notation import rule as parse
from dwindle.core.rules import RowRule, Rule
from dwindle.core.temporal import Temporal
from dwindle.models.library import Config
from dwindle.models.settings import Copy
from dwindle.models.vocabulary import END, PAD, START, UNK


class PointerGeneratorConfig(Config):
    """Sizes, the coverage mechanism and the rule; saved as ``config.json``."""

    model_type = "dwindle-pointer-generator"

    vocab_size: int = 50_000
    """Number of words, special ones included."""
    hidden_size: int = 256
    """Hidden size of the decoder and of each direction of the encoder."""
    embedding_size: int = 128
    """Size of the embedding, which source and target share."""
    rule: str = "plain"
    """Rule of the context vector's weights, in the notation of ``dwindle.rule``."""
    copy: str = "plain"
    """Weights of the copy distribution: see ``dwindle.models.settings.Copy``."""
    coverage: bool = False
    """See's mechanism: attention sees its coverage, and a coverage loss is added to the loss."""
    coverage_loss: float = 1.0
    """The weight of the coverage loss where there is ``coverage``."""
    temporal: bool = False
    """Temporal attention (Nallapati et al., 2016; Paulus et al., 2018), which divides energies by
    their past."""
    uniform_init: float = 0.02
    """LSTM weights start uniform in plus and minus this."""
    normal_init: float = 1e-4
    """Standard deviation of the truncated normal that embedding and output layers start with."""

    unk_token_id: int = UNK
    pad_token_id: int | None = PAD
    bos_token_id: int | None = START
    eos_token_id: int | None = END
    decoder_start_token_id: int | None = START
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if self.copy not in get_args(Copy):
            raise ValueError(
                f"copy is {self.copy!r}: choose one of {', '.join(map(repr, get_args(Copy)))}"
            )
        if self.coverage_loss < 0:
            raise ValueError(f"coverage_loss is {self.coverage_loss}: give a weight of 0 or more")
        self.rule = str(usable(self.rule))


def usable(rule: Rule | str) -> RowRule:
    """The rule, if it is one that diminishes rows of attention."""
    if isinstance(parse(rule), Temporal):
        raise ValueError(
            "a pointer-generator has temporal attention as a setting of its own: pass temporal=True"
        )
    return row_rule(rule)
