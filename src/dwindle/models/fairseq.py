"""``FairseqTransformer``: the Transformer of translation exactly as fairseq computes it.

Marian's classes in `transformers` have its layers (norms after the residuals, scaled embeddings,
joined or separate vocabularies); what they lack is fairseq's sinusoids. Published checkpoints of
Ott et al. (2018) open as this model.
"""

from transformers import MarianConfig, MarianMTModel

from dwindle.models.library import no_init_weights
from dwindle.models.sinusoids import FairseqSinusoids


class FairseqConfig(MarianConfig):
    """Marian's settings."""

    model_type = "dwindle-fairseq"


class FairseqTransformer(MarianMTModel):
    """Marian's model with fairseq's positions."""

    config_class = FairseqConfig

    def __init__(self, config: FairseqConfig) -> None:
        with no_init_weights():  # Marian computes its own sinusoids one number at a time
            super().__init__(config)
        for part in (self.model.encoder, self.model.decoder):
            part.embed_positions = FairseqSinusoids(config.max_position_embeddings, config.d_model)
        self.post_init()
