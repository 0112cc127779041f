"""``PreSumm``: the abstractive summariser of Liu and Lapata (2019). BERT reads, a Transformer of
its own writes.

The decoder is that of nlpyang/PreSumm (``models/decoder.py``, ``models/neural.py``): norms before
each part and one after the last layer, all with epsilon 1e-6; embeddings times the root of their
width; sinusoids; GELU by its tanh formula; one dropout everywhere; the output layer shares the
embedding and has a bias. Pegasus's decoder in `transformers` has that order, so only what differs
from it is written here. It knows no text.
"""

from typing import Any

from torch import nn
from transformers import (
    BertModel,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    PegasusConfig,
    PegasusForCausalLM,
    PreTrainedModel,
)

from dwindle.models.library import no_init_weights
from dwindle.models.sinusoids import PreSummSinusoids

POSITIONS = 5000
"""Number of positions of PreSumm's sinusoids."""
_EPSILON = 1e-6


class PreSummConfig(EncoderDecoderConfig):
    """BERT's config as ``encoder``, and Pegasus's as ``decoder`` (``writer`` makes it)."""

    model_type = "dwindle-presumm"


def writer(
    width: int, ffn: int, heads: int, layers: int, dropout: float, **more: Any
) -> PegasusConfig:
    """The config of a decoder. ``more``: the vocabulary's size and special tokens."""
    return PegasusConfig(
        d_model=width,
        decoder_layers=layers,
        decoder_ffn_dim=ffn,
        decoder_attention_heads=heads,
        dropout=dropout,
        attention_dropout=dropout,
        activation_dropout=dropout,
        activation_function="gelu_new",
        scale_embedding=True,
        max_position_embeddings=POSITIONS,
        is_decoder=True,
        is_encoder_decoder=False,
        forced_eos_token_id=None,
        **more,
    )


class PreSummDecoder(PegasusForCausalLM):
    """Token ids (B, T) and the encoder's states (B, S, D) -> logits (B, T, V)."""

    def __init__(self, config: PegasusConfig) -> None:
        with no_init_weights():  # Pegasus computes its own sinusoids one number at a time
            super().__init__(config)
        layers = self.model.decoder
        layers.embed_positions = PreSummSinusoids(config.max_position_embeddings, config.d_model)
        for module in layers.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = _EPSILON
        self.lm_head = nn.Linear(config.d_model, config.vocab_size)
        self.post_init()


class PreSumm(EncoderDecoderModel):
    """BERT and PreSumm's decoder, with ``generate()``, without BERT's pooler, which is not used."""

    config_class = PreSummConfig
    _keys_to_ignore_on_load_missing = ("decoder.model.decoder.embed_positions.weight",)
    _keys_to_ignore_on_save = _keys_to_ignore_on_load_missing

    def __init__(self, config: PreSummConfig, encoder: PreTrainedModel | None = None) -> None:
        """``encoder``: a BERT with weights; None for a new one."""
        reader = encoder or BertModel(config.encoder, add_pooling_layer=False)
        super().__init__(config, reader, PreSummDecoder(config.decoder))
