"""``FairseqTransformer``: the Transformer of translation exactly as fairseq computes it.

Marian's classes in `transformers` have its layers (norms after the residuals, scaled embeddings,
joined or separate vocabularies); what they lack is fairseq's sinusoids, and norms before the
layers, for those who set ``--encoder-normalize-before`` or ``--decoder-normalize-before``.
Published checkpoints of Ott et al. (2018) open as this model.
"""

from typing import Any

from torch import nn
from transformers import MarianConfig, MarianMTModel
from transformers.models.marian.modeling_marian import MarianDecoderLayer, MarianEncoderLayer
from transformers.models.pegasus.modeling_pegasus import PegasusDecoderLayer, PegasusEncoderLayer

from dwindle.models.library import no_init_weights
from dwindle.models.sinusoids import FairseqSinusoids


class FairseqConfig(MarianConfig):
    """Marian's settings.

    ``encoder_normalize_before``, ``decoder_normalize_before``: True if norms stand before the parts
    of each layer (default False: a norm after each part).
    ``encoder_final_norm``, ``decoder_final_norm``: True (default) if norms that stand before the
    parts are followed by one after the last layer, as in models that fairseq trained since August
    2018.
    """

    model_type = "dwindle-fairseq"
    encoder_normalize_before = False
    decoder_normalize_before = False
    encoder_final_norm = True
    decoder_final_norm = True


class _EncoderLayer(MarianEncoderLayer):
    """A layer with its norms first: Pegasus has the same weights in that order."""

    forward = PegasusEncoderLayer.forward


class _DecoderLayer(MarianDecoderLayer):
    """Likewise."""

    forward = PegasusDecoderLayer.forward


class FairseqTransformer(MarianMTModel):
    """Marian's model with fairseq's positions."""

    config_class = FairseqConfig

    def __init__(self, config: FairseqConfig) -> None:
        with no_init_weights():  # Marian computes its own sinusoids one number at a time
            super().__init__(config)
        encoder, decoder = self.model.encoder, self.model.decoder
        for part in (encoder, decoder):
            part.embed_positions = FairseqSinusoids(config.max_position_embeddings, config.d_model)
        if config.encoder_normalize_before:
            encoder.layers = nn.ModuleList(
                _EncoderLayer(config) for _ in range(config.encoder_layers)
            )
        if config.decoder_normalize_before:
            decoder.layers = nn.ModuleList(
                _DecoderLayer(config, layer_idx=i) for i in range(config.decoder_layers)
            )
        for name, part in (("encoder", encoder), ("decoder", decoder)):
            if all(getattr(config, f"{name}_{k}") for k in ("normalize_before", "final_norm")):
                part.layer_norm = nn.LayerNorm(config.d_model)
                part.register_forward_hook(_normed)
        self.post_init()


def _normed(part: Any, _: Any, output: Any) -> Any:
    """Output of an encoder or decoder, its states normed."""
    if isinstance(output, tuple):
        return (part.layer_norm(output[0]), *output[1:])
    output.last_hidden_state = part.layer_norm(output.last_hidden_state)
    return output
