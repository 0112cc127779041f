"""Settings and makers of the tiny models: two heads of eight, two decoder layers, a vocabulary of
48."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from transformers.models.bert import modeling_bert
from transformers.models.mllama import modeling_mllama

from tests.attaching.tiny import VOCABULARY, Inputs, S

FUSED = hasattr(modeling_bert, "BertSdpaSelfAttention")
"""Whether BERT's attention is one fused call unless ``eager`` is asked for, as it was before
5.0."""

# Untied: a model whose output table is its input table repeats one token, and its beams hardly
# differ.
SPECIAL = {
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "tie_word_embeddings": False,
}
BART = {
    **SPECIAL,
    "vocab_size": VOCABULARY,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "max_position_embeddings": 32,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "forced_eos_token_id": None,
}
T5 = {
    **SPECIAL,
    "vocab_size": VOCABULARY,
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 16,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 2,
    "relative_attention_num_buckets": 8,
}
BERT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 32,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
}
DECODER = {"is_decoder": True, "add_cross_attention": True}
ROPE = {"rope_type": "default", "rope_theta": 10000.0}


def of(
    model: type, config: type, *settings: Inputs, **more: Any
) -> Callable[[], hf.PreTrainedModel]:
    """A maker of ``model(config(...))``; later settings win."""
    merged: Inputs = {}
    for each in (*settings, more):
        merged |= each
    return lambda: model(config(**merged))


def pair(
    encoder: Any, decoder: Any, joined: type = hf.EncoderDecoderModel
) -> Callable[[], hf.PreTrainedModel]:
    """A maker of an encoder and a decoder joined by EncoderDecoderModel or
    VisionEncoderDecoderModel."""

    def make() -> hf.PreTrainedModel:
        joint = {
            hf.EncoderDecoderModel: hf.EncoderDecoderConfig,
            hf.VisionEncoderDecoderModel: hf.VisionEncoderDecoderConfig,
        }[joined]
        config = joint.from_encoder_decoder_configs(encoder, decoder)
        config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 1, 2
        if FUSED:
            config._attn_implementation = "eager"
        return joined(config=config)

    return make


def bert(config: type = hf.BertConfig, **more: Any) -> Any:
    return config(**{**BERT, **more})


def vit() -> Any:
    return hf.ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=12,
        patch_size=4,
    )


def t5gemma() -> hf.PreTrainedModel:
    part = {
        **BERT,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "sliding_window": 64,
        "num_hidden_layers": 2,
    }
    config = hf.T5GemmaConfig(
        encoder=part, decoder=part, vocab_size=VOCABULARY, tie_word_embeddings=False
    )
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 1, 2
    model = hf.T5GemmaForConditionalGeneration(config)
    # torch's attention has no softcap: 4.57 took it all the same
    model.set_attn_implementation("eager")
    return model


def seamless(model: type, config: type) -> Callable[[], hf.PreTrainedModel]:
    """Text to text; the speech parts of the config stay unused."""
    return of(model, config, BART, hidden_size=16)


def pix2struct() -> hf.PreTrainedModel:
    text_part = {
        **SPECIAL,
        "vocab_size": VOCABULARY,
        "hidden_size": 16,
        "d_kv": 8,
        "d_ff": 16,
        "num_layers": 2,
        "num_heads": 2,
        "is_decoder": True,
    }
    vision_part = {
        "hidden_size": 16,
        "patch_embed_hidden_size": 12,
        "d_ff": 16,
        "d_kv": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "seq_len": S,
    }
    config = hf.Pix2StructConfig(text_config=text_part, vision_config=vision_part)
    return hf.Pix2StructForConditionalGeneration(config)


def mllama() -> hf.PreTrainedModel:
    """Cross-attention layers of their own, here the second and the fourth, and one cache for both
    kinds."""
    text_part = {
        **BERT,
        "num_hidden_layers": 4,
        "num_key_value_heads": 1,
        "cross_attention_layers": [1, 3],
    }
    vision_part = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_global_layers": 1,
        "attention_heads": 2,
        "intermediate_size": 16,
        "vision_output_dim": 32,
        "image_size": 12,
        "patch_size": 4,
        "max_num_tiles": 1,
        "intermediate_layers_indices": [0],
        "supported_aspect_ratios": [[1, 1]],
    }
    # another name before 5.0
    named = inspect.signature(modeling_mllama.MllamaTextConfig).parameters
    rope = {"rope_scaling" if "rope_scaling" in named else "rope_parameters": ROPE}
    config = hf.MllamaConfig(text_config={**text_part, **rope}, vision_config=vision_part)
    model = hf.MllamaForConditionalGeneration(config)
    with torch.no_grad():
        for layer in model.model.language_model.layers[1::2]:
            layer.cross_attn_attn_gate.fill_(1)  # zero at first: the image would not be seen at all
    return model


MOONSHINE = {
    **SPECIAL,
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 16,
    "encoder_num_hidden_layers": 1,
    "decoder_num_hidden_layers": 2,
    "encoder_num_attention_heads": 2,
    "decoder_num_attention_heads": 2,
    "max_position_embeddings": 32,
}


SPEECHT5 = {
    **BART,
    "hidden_size": 16,
    "conv_dim": (8,),
    "conv_stride": (4,),
    "conv_kernel": (4,),
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "max_text_positions": 32,
}
PROPHETNET = {
    **SPECIAL,
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "num_encoder_attention_heads": 2,
    "num_decoder_attention_heads": 2,
    "max_position_embeddings": 32,
}


def t5gemma2() -> hf.PreTrainedModel:
    part = {
        **BERT,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "sliding_window": 64,
        "layer_types": ["sliding_attention", "full_attention"],
    }
    vision = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "image_size": 12,
        "patch_size": 4,
    }
    encoder = {
        "text_config": part,
        "vision_config": vision,
        "mm_tokens_per_image": 9,
        "image_token_index": 47,
    }
    config = hf.T5Gemma2Config(encoder=encoder, decoder=part, image_token_index=47)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 1, 2
    return hf.T5Gemma2ForConditionalGeneration(config)


PARAKEET = {
    "model_type": "parakeet_encoder",
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "conv_kernel_size": 3,
    "subsampling_factor": 4,
    "subsampling_conv_channels": 4,
    "num_mel_bins": 8,
    "max_position_embeddings": 64,
}


def canary() -> hf.PreTrainedModel:
    decoder = {**BERT, "num_key_value_heads": 2, "head_dim": 8}
    named = {**SPECIAL, "vocab_size": VOCABULARY}
    return hf.CanaryForConditionalGeneration(
        hf.CanaryConfig(encoder_config=PARAKEET, decoder_config=decoder, **named)
    )


def cohere_asr() -> hf.PreTrainedModel:
    return hf.CohereAsrForConditionalGeneration(
        hf.CohereAsrConfig(encoder_config=PARAKEET, decoder_start_token_id=2, **BERT)
    )


def moonshine_streaming() -> hf.PreTrainedModel:
    encoder = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "sliding_windows": ((4, 4),),
        "max_position_embeddings": 64,
    }
    return hf.MoonshineStreamingForConditionalGeneration(
        hf.MoonshineStreamingConfig(
            encoder_config=encoder, num_key_value_heads=2, decoder_start_token_id=2, **BERT
        )
    )


def florence2() -> hf.PreTrainedModel:
    vision = {
        "depths": (1,),
        "patch_size": (3,),
        "patch_stride": (2,),
        "patch_padding": (1,),
        "patch_prenorm": (False,),
        "embed_dim": (16,),
        "num_heads": (2,),
        "num_groups": (2,),
        "window_size": 3,
        "projection_dim": 16,
        "max_temporal_embeddings": 4,
        "max_position_embeddings": 8,
    }
    config = hf.Florence2Config(
        text_config={"model_type": "bart", **BART}, vision_config=vision, image_token_id=47
    )
    return hf.Florence2ForConditionalGeneration(config)


def udop() -> hf.PreTrainedModel:
    config = hf.UdopConfig(
        **{**T5, "relative_attention_num_buckets": 32},
        relative_bias_args=[{"type": "1d"}, {"type": "horizontal"}, {"type": "vertical"}],
        image_size=12,
        patch_size=4,
        max_2d_position_embeddings=64,
    )
    return hf.UdopForConditionalGeneration(config)


def dia() -> hf.PreTrainedModel:
    """Two channels of audio codes."""
    part = {
        "vocab_size": VOCABULARY,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 32,
    }
    cross = {"cross_num_attention_heads": 2, "cross_head_dim": 8, "cross_num_key_value_heads": 2}
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    decoder = {
        **part,
        **cross,
        **ids,
        "cross_hidden_size": 16,
        "num_channels": 2,
        "num_hidden_layers": 2,
    }
    config = hf.DiaConfig(
        encoder_config={**part, "num_hidden_layers": 1},
        decoder_config=decoder,
        delay_pattern=[0, 1],
    )
    return hf.DiaForConditionalGeneration(config)


def xglm() -> Any:
    return hf.XGLMConfig(
        vocab_size=VOCABULARY,
        d_model=16,
        num_layers=2,
        attention_heads=2,
        ffn_dim=16,
        max_position_embeddings=32,
        layerdrop=0.0,
        **{
            k: SPECIAL[k]
            for k in ("pad_token_id", "bos_token_id", "eos_token_id", "tie_word_embeddings")
        },
        **DECODER,
    )


FSMT = {"langs": ["en", "de"], "src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY}
