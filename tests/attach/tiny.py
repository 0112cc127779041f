"""A tiny random model of every family, its inputs, and how to run it. No downloads, no training.

All weights are drawn anew, wide enough that cross-attention is sharp: on a nearly uniform attention every
beam has the same coverage, and a forgotten reorder would pass unseen. What a family must pass is said in
``dwindle.attach.families``; this file only builds.

Shapes: B = 3 sources, S source positions (right-padded where the family takes a mask), T = 7 target rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers as hf
from torch import Tensor

B, S, T, VOCABULARY = 3, 9, 7, 48
LENGTHS = (9, 7, 5)
Inputs = dict[str, Any]


@dataclass(frozen=True)
class Tiny:
    """One family: a model and the inputs it takes.

    ``style`` says how the decoder is reached: "seq2seq" takes ``decoder_input_ids`` and encodes by itself;
    "decoder" is only a decoder, and takes ``input_ids`` with ready ``encoder_hidden_states``.
    """

    name: str
    make: Callable[[], hf.PreTrainedModel]
    source: Callable[[], Inputs]
    style: str = "seq2seq"
    sharpness: float = 0.4
    embedding: float = 0.4
    auto: type = hf.AutoModelForSeq2SeqLM
    target: tuple[int, ...] = (B, T)
    once: tuple[str, ...] = ()
    generate: Inputs = field(default_factory=dict)
    seed: int = 0

    def build(self) -> hf.PreTrainedModel:
        """The model: eval mode, float32, every weight drawn from ``seed``."""
        torch.manual_seed(self.seed)
        model = self.make().eval()
        draw(model, self.sharpness, self.embedding, self.seed)
        return model

    def rows(self) -> Tensor:
        """The target rows of teacher forcing, (B, T) ids."""
        generator = torch.Generator().manual_seed(self.seed + 1)
        return torch.randint(4, VOCABULARY, self.target, generator=generator)

    def logits(self, model: hf.PreTrainedModel, cuts: tuple[int, ...] | None = None) -> Tensor:
        """(B, T, V) of teacher forcing: all rows in one call without a cache, or with a cache, cut into
        pieces of these many rows."""
        given, rows = self.encoded(model), self.rows()
        name = "decoder_input_ids" if self.style == "seq2seq" else "input_ids"
        with torch.no_grad():
            if cuts is None:
                return model(**given, **{name: rows}, use_cache=False).logits
            past, found = None, []
            for piece in rows.split(list(cuts), dim=-1):
                out = model(**given, **{name: piece}, past_key_values=past, use_cache=True)
                past = out.past_key_values
                found.append(out.logits)
                given = {k: v for k, v in given.items() if k not in self.once}
            return torch.cat(found, dim=1)

    def encoded(self, model: hf.PreTrainedModel) -> Inputs:
        """The inputs of every decoder call, the source encoded once."""
        source = self.source()
        if self.style == "decoder":
            return source
        with torch.no_grad():
            states = model.get_encoder()(**source)
        mask = {"attention_mask": source["attention_mask"]} if "attention_mask" in source else {}
        return {"encoder_outputs": states, **mask}

    def generated(self, model: hf.PreTrainedModel, beams: int, cache: bool) -> tuple[Tensor, Tensor]:
        """Eight generated tokens of each source, and the scores of all beams at every step."""
        out = model.generate(
            **self.source(),
            **self.generate,
            num_beams=beams,
            do_sample=False,
            use_cache=cache,
            suppress_tokens=[1],  # padding among the rows shifts the positions of some families
            min_new_tokens=8,
            max_new_tokens=8,
            return_dict_in_generate=True,
            output_scores=True,
        )
        return out.sequences, torch.stack(out.scores).clamp_min(-1e4)


def draw(model: hf.PreTrainedModel, spread: float, embedding: float, seed: int) -> None:
    """Draw every matrix from N(0, spread), embeddings from N(0, embedding). Vectors stay as they were, and so do
    tables that are computed (some of them are not saved)."""
    generator = torch.Generator().manual_seed(seed)
    tables = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() >= 2 and parameter.requires_grad:
                scale = embedding if id(parameter) in tables else spread
                parameter.normal_(0, scale, generator=generator)


# --- sources ---------------------------------------------------------------------------------------------


def text() -> Inputs:
    """(B, S) ids and their right-padded mask. Padding is id 1 for all: it is masked."""
    generator = torch.Generator().manual_seed(7)
    mask = (torch.arange(S) < torch.tensor(LENGTHS)[:, None]).long()
    ids = torch.randint(4, VOCABULARY, (B, S), generator=generator)
    return {"input_ids": ids.where(mask.bool(), 1), "attention_mask": mask}


def states(width: int = 16) -> Callable[[], Inputs]:
    """Ready encoder states (B, S, width) for a bare decoder."""

    def source() -> Inputs:
        generator = torch.Generator().manual_seed(7)
        return {
            "encoder_hidden_states": torch.randn(B, S, width, generator=generator),
            "encoder_attention_mask": text()["attention_mask"],
        }

    return source


def image() -> Inputs:
    """Pixels (B, 3, 12, 12): nine patches of 4 x 4."""
    return {"pixel_values": torch.randn(B, 3, 12, 12, generator=torch.Generator().manual_seed(7))}


def whisper_features() -> Inputs:
    """Log-mel features (B, 8, 24) that the encoder halves to S = 12."""
    return {"input_features": torch.randn(B, 8, 24, generator=torch.Generator().manual_seed(7))}


# --- models ----------------------------------------------------------------------------------------------

# Untied: a model whose output table is its input table repeats one token, and its beams hardly differ.
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


def of(model: type, config: type, *settings: Inputs, **more: Any) -> Callable[[], hf.PreTrainedModel]:
    """A maker of ``model(config(...))``; later settings win."""
    merged: Inputs = {}
    for each in (*settings, more):
        merged |= each
    return lambda: model(config(**merged))


def pair(
    encoder: hf.PreTrainedConfig, decoder: hf.PreTrainedConfig, joined: type = hf.EncoderDecoderModel
) -> Callable[[], hf.PreTrainedModel]:
    """A maker of an encoder and a decoder joined by EncoderDecoderModel or VisionEncoderDecoderModel."""

    def make() -> hf.PreTrainedModel:
        joint = {
            hf.EncoderDecoderModel: hf.EncoderDecoderConfig,
            hf.VisionEncoderDecoderModel: hf.VisionEncoderDecoderConfig,
        }[joined]
        config = joint.from_encoder_decoder_configs(encoder, decoder)
        config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 1, 2
        return joined(config=config)

    return make


def bert(config: type = hf.BertConfig, **more: Any) -> hf.PreTrainedConfig:
    return config(**{**BERT, **more})


def vit() -> hf.PreTrainedConfig:
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
    config = hf.T5GemmaConfig(encoder=part, decoder=part, vocab_size=VOCABULARY, tie_word_embeddings=False)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 1, 2
    return hf.T5GemmaForConditionalGeneration(config)


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


def patches() -> Inputs:
    """Pix2Struct's flattened patches (B, S, 2 + 12): row and column first, zeros are padding."""
    values = torch.randn(B, S, 14, generator=torch.Generator().manual_seed(7))
    values[..., :2] = torch.stack([torch.arange(S) // 3, torch.arange(S) % 3], dim=-1) + 1
    mask = text()["attention_mask"]
    return {"flattened_patches": values * mask[..., None], "attention_mask": mask.float()}


def mllama() -> hf.PreTrainedModel:
    """Cross-attention layers of their own, here the second and the fourth, and one cache for both kinds."""
    text_part = {**BERT, "num_hidden_layers": 4, "num_key_value_heads": 1, "cross_attention_layers": [1, 3]}
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
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    config = hf.MllamaConfig(text_config={**text_part, "rope_parameters": rope}, vision_config=vision_part)
    model = hf.MllamaForConditionalGeneration(config)
    with torch.no_grad():
        for layer in model.model.language_model.layers[1::2]:
            layer.cross_attn_attn_gate.fill_(1)  # zero at first: the image would not be seen at all
    return model


def mllama_image() -> Inputs:
    """One tile of (3, 12, 12) pixels each, which every row may attend to."""
    return {
        "pixel_values": image()["pixel_values"][:, None, None],
        "aspect_ratio_ids": torch.ones(B, 1, dtype=torch.long),
        "aspect_ratio_mask": torch.ones(B, 1, 1, dtype=torch.long),
        "cross_attention_mask": torch.ones(B, T, 1, 1, dtype=torch.long),
    }


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


def moonshine_audio() -> Inputs:
    """Samples (B, 4096) that the convolutions cut to S = 9, with their mask."""
    mask = torch.arange(4096) < 4096 * torch.tensor(LENGTHS)[:, None] // S
    generator = torch.Generator().manual_seed(7)
    return {"input_values": torch.randn(B, 4096, generator=generator), "attention_mask": mask.long()}


def speech_frames() -> Inputs:
    """Filter banks (B, 4 S, 8) that two convolutions quarter to S, with their mask."""
    mask = text()["attention_mask"].repeat_interleave(4, dim=1)
    generator = torch.Generator().manual_seed(7)
    return {"input_features": torch.randn(B, 4 * S, 8, generator=generator), "attention_mask": mask}


def speech_samples() -> Inputs:
    """Samples (B, 40) that one convolution cuts to 9, with their mask."""
    mask = text()["attention_mask"].repeat_interleave(4, dim=1)
    generator = torch.Generator().manual_seed(7)
    return {"input_values": torch.randn(B, 4 * S, generator=generator), "attention_mask": mask}


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


PROMPT = {"input_ids": torch.tensor([[0, 5], [0, 6], [0, 7]])}
VISION2SEQ = hf.AutoModelForImageTextToText
SPEECH2SEQ = hf.AutoModelForSpeechSeq2Seq

TINY = [
    Tiny("BART", of(hf.BartForConditionalGeneration, hf.BartConfig, BART), text),
    Tiny("T5", of(hf.T5ForConditionalGeneration, hf.T5Config, T5), text),
    Tiny("Marian", of(hf.MarianMTModel, hf.MarianConfig, BART), text),
    Tiny("Pegasus", of(hf.PegasusForConditionalGeneration, hf.PegasusConfig, BART), text),
    Tiny("mBART", of(hf.MBartForConditionalGeneration, hf.MBartConfig, BART), text),
    Tiny("M2M100 / NLLB", of(hf.M2M100ForConditionalGeneration, hf.M2M100Config, BART), text),
    Tiny(
        "Whisper",
        of(
            hf.WhisperForConditionalGeneration,
            hf.WhisperConfig,
            BART,
            num_mel_bins=8,
            max_source_positions=12,
            max_target_positions=32,
        ),
        whisper_features,
        auto=SPEECH2SEQ,
    ),
    Tiny("EncoderDecoder (BERT)", pair(bert(), bert(**DECODER)), text),
    Tiny(
        "EncoderDecoder (RoBERTa)",
        pair(bert(hf.RobertaConfig), bert(hf.RobertaConfig, max_position_embeddings=40, **DECODER)),
        text,
    ),
    Tiny(
        "EncoderDecoder (BertGeneration)",
        pair(bert(hf.BertGenerationConfig), bert(hf.BertGenerationConfig, **DECODER)),
        text,
    ),
    Tiny(
        "EncoderDecoder (GPT-2)",
        pair(
            bert(),
            hf.GPT2Config(
                vocab_size=VOCABULARY,
                n_embd=16,
                n_layer=2,
                n_head=2,
                n_positions=32,
                bos_token_id=0,
                eos_token_id=2,
                pad_token_id=1,
                tie_word_embeddings=False,
                **DECODER,
            ),
        ),
        text,
    ),
    Tiny("Pegasus-X", of(hf.PegasusXForConditionalGeneration, hf.PegasusXConfig, BART, block_size=4), text),
    Tiny(
        "NLLB-MoE",
        of(
            hf.NllbMoeForConditionalGeneration,
            hf.NllbMoeConfig,
            BART,
            num_experts=2,
            encoder_sparse_step=1,
            decoder_sparse_step=2,
            expert_capacity=64,
        ),
        text,
    ),
    Tiny("Blenderbot", of(hf.BlenderbotForConditionalGeneration, hf.BlenderbotConfig, BART), text),
    Tiny("PLBart", of(hf.PLBartForConditionalGeneration, hf.PLBartConfig, BART), text),
    Tiny(
        "BigBirdPegasus",
        of(
            hf.BigBirdPegasusForConditionalGeneration,
            hf.BigBirdPegasusConfig,
            BART,
            attention_type="original_full",
        ),
        text,
    ),
    Tiny("mT5", of(hf.MT5ForConditionalGeneration, hf.MT5Config, T5), text, sharpness=0.3),
    Tiny("UMT5", of(hf.UMT5ForConditionalGeneration, hf.UMT5Config, T5), text),
    Tiny("LongT5", of(hf.LongT5ForConditionalGeneration, hf.LongT5Config, T5, local_radius=3), text),
    Tiny(
        "Switch Transformers",
        of(
            hf.SwitchTransformersForConditionalGeneration,
            hf.SwitchTransformersConfig,
            T5,
            num_experts=2,
            num_sparse_encoder_layers=1,
            num_sparse_decoder_layers=1,
            expert_capacity=64,
        ),
        text,
    ),
    Tiny("T5Gemma", t5gemma, text),
    Tiny(
        "VisionEncoderDecoder (BERT)",
        pair(vit(), bert(**DECODER), hf.VisionEncoderDecoderModel),
        image,
        auto=VISION2SEQ,
    ),
    Tiny(
        "VisionEncoderDecoder (mBART)",
        pair(vit(), hf.MBartConfig(**{**BART, **DECODER, "encoder_layers": 2}), hf.VisionEncoderDecoderModel),
        image,
        auto=VISION2SEQ,
    ),
    Tiny(
        "Speech2Text",
        of(
            hf.Speech2TextForConditionalGeneration,
            hf.Speech2TextConfig,
            BART,
            input_feat_per_channel=8,
            conv_channels=16,
            max_source_positions=64,
            max_target_positions=32,
        ),
        speech_frames,
        auto=SPEECH2SEQ,
    ),
    Tiny("SeamlessM4T", seamless(hf.SeamlessM4TForTextToText, hf.SeamlessM4TConfig), text),
    Tiny("SeamlessM4T v2", seamless(hf.SeamlessM4Tv2ForTextToText, hf.SeamlessM4Tv2Config), text),
    Tiny(
        "Moonshine",
        of(hf.MoonshineForConditionalGeneration, hf.MoonshineConfig, MOONSHINE),
        moonshine_audio,
        auto=SPEECH2SEQ,
    ),
    Tiny("Pix2Struct", pix2struct, patches, auto=VISION2SEQ),
    Tiny(
        "Musicgen decoder",
        of(
            hf.MusicgenForCausalLM,
            hf.MusicgenDecoderConfig,
            BERT,
            ffn_dim=16,
            num_codebooks=2,
            **DECODER,
        ),
        states(),
        style="decoder",
        target=(2 * B, T),
        auto=hf.MusicgenForCausalLM,
    ),
    Tiny(
        "Mllama",
        mllama,
        mllama_image,
        style="decoder",
        once=("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask"),
        auto=VISION2SEQ,
        generate=PROMPT,
    ),
    Tiny(
        "LED",
        of(
            hf.LEDForConditionalGeneration,
            hf.LEDConfig,
            BART,
            attention_window=4,
            max_encoder_position_embeddings=32,
            max_decoder_position_embeddings=32,
        ),
        text,
    ),
    Tiny("MVP", of(hf.MvpForConditionalGeneration, hf.MvpConfig, BART), text),
    Tiny(
        "TrOCR",
        pair(
            vit(),
            hf.TrOCRConfig(**{**BART, **DECODER, "cross_attention_hidden_size": 16}),
            hf.VisionEncoderDecoderModel,
        ),
        image,
        auto=VISION2SEQ,
    ),
    Tiny(
        "EncoderDecoder (RemBERT)",
        pair(bert(), bert(hf.RemBertConfig, input_embedding_size=16, output_embedding_size=16, **DECODER)),
        text,
    ),
    Tiny("EncoderDecoder (RoFormer)", pair(bert(), bert(hf.RoFormerConfig, **DECODER)), text),
    Tiny(
        "BLIP text",
        of(hf.BlipTextLMHeadModel, hf.BlipTextConfig, BERT, encoder_hidden_size=16, is_decoder=True),
        states(),
        style="decoder",
        auto=hf.BlipTextLMHeadModel,
        generate=PROMPT,
    ),
    Tiny(
        "SpeechT5",
        of(hf.SpeechT5ForSpeechToText, hf.SpeechT5Config, SPEECHT5),
        speech_samples,
        auto=SPEECH2SEQ,
    ),
    Tiny("ProphetNet", of(hf.ProphetNetForConditionalGeneration, hf.ProphetNetConfig, PROPHETNET), text),
    Tiny(
        "EncoderDecoder (BigBird)",
        pair(bert(), bert(hf.BigBirdConfig, attention_type="original_full", **DECODER)),
        text,
    ),
    Tiny("T5Gemma 2", t5gemma2, text),
]
