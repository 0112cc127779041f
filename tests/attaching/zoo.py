"""One tiny model of every family in the support table, in its order.

What a family must pass is said in ``dwindle.attaching.families``; here is only how to build and
feed it.
"""

import torch
import transformers as hf

from tests.attaching.makers import (
    BART,
    BERT,
    DECODER,
    FSMT,
    MOONSHINE,
    PROPHETNET,
    SPEECHT5,
    T5,
    bert,
    canary,
    cohere_asr,
    dia,
    florence2,
    mllama,
    moonshine_streaming,
    of,
    pair,
    pix2struct,
    seamless,
    t5gemma,
    t5gemma2,
    udop,
    vit,
    xglm,
)
from tests.attaching.tiny import (
    VOCABULARY,
    B,
    T,
    Tiny,
    boxes,
    image,
    mllama_image,
    moonshine_audio,
    patches,
    speech_frames,
    speech_samples,
    states,
    streamed_audio,
    text,
    whisper_features,
)

PROMPT = {"input_ids": torch.tensor([[0, 5], [0, 6], [0, 7]])}
ROBERTA = {"max_position_embeddings": 40, **DECODER}  # positions begin after the id of padding
VISION2SEQ = hf.AutoModelForImageTextToText
SPEECH2SEQ = hf.AutoModelForSpeechSeq2Seq

ZOO = [
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
        pair(bert(hf.RobertaConfig), bert(hf.RobertaConfig, **ROBERTA)),
        text,
    ),
    Tiny("EncoderDecoder (XLM-RoBERTa)", pair(bert(), bert(hf.XLMRobertaConfig, **ROBERTA)), text),
    Tiny(
        "EncoderDecoder (XLM-RoBERTa-XL)",
        pair(bert(), bert(hf.XLMRobertaXLConfig, **ROBERTA)),
        text,
    ),
    Tiny("EncoderDecoder (CamemBERT)", pair(bert(), bert(hf.CamembertConfig, **ROBERTA)), text),
    Tiny(
        "EncoderDecoder (Data2VecText)", pair(bert(), bert(hf.Data2VecTextConfig, **ROBERTA)), text
    ),
    Tiny(
        "EncoderDecoder (RoBERTa-PreLayerNorm)",
        pair(bert(), bert(hf.RobertaPreLayerNormConfig, **ROBERTA)),
        text,
    ),
    Tiny(
        "EncoderDecoder (X-MOD)",
        pair(bert(), bert(hf.XmodConfig, languages=["en_XX"], default_language="en_XX", **ROBERTA)),
        text,
    ),
    Tiny(
        "EncoderDecoder (ELECTRA)",
        pair(bert(), bert(hf.ElectraConfig, embedding_size=16, **DECODER)),
        text,
    ),
    Tiny("EncoderDecoder (ERNIE)", pair(bert(), bert(hf.ErnieConfig, **DECODER)), text),
    Tiny(
        "EncoderDecoder (RoCBert)",
        pair(
            bert(),
            bert(hf.RoCBertConfig, enable_pronunciation=False, enable_shape=False, **DECODER),
        ),
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
    Tiny(
        "Pegasus-X",
        of(hf.PegasusXForConditionalGeneration, hf.PegasusXConfig, BART, block_size=4),
        text,
    ),
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
    Tiny(
        "Blenderbot Small",
        of(hf.BlenderbotSmallForConditionalGeneration, hf.BlenderbotSmallConfig, BART),
        text,
    ),
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
    Tiny("mT5", of(hf.MT5ForConditionalGeneration, hf.MT5Config, T5), text, spread=0.3),
    Tiny("UMT5", of(hf.UMT5ForConditionalGeneration, hf.UMT5Config, T5), text),
    Tiny(
        "LongT5", of(hf.LongT5ForConditionalGeneration, hf.LongT5Config, T5, local_radius=3), text
    ),
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
    Tiny("UDOP", udop, boxes, auto=hf.UdopForConditionalGeneration),
    Tiny(
        "VisionEncoderDecoder (BERT)",
        pair(vit(), bert(**DECODER), hf.VisionEncoderDecoderModel),
        image,
        auto=VISION2SEQ,
    ),
    Tiny(
        "VisionEncoderDecoder (mBART)",
        pair(
            vit(),
            hf.MBartConfig(**{**BART, **DECODER, "encoder_layers": 2}),
            hf.VisionEncoderDecoderModel,
        ),
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
    Tiny("Canary", canary, speech_frames, auto=SPEECH2SEQ),
    Tiny("Cohere ASR", cohere_asr, speech_frames, auto=SPEECH2SEQ),
    Tiny(
        "Moonshine",
        of(hf.MoonshineForConditionalGeneration, hf.MoonshineConfig, MOONSHINE),
        moonshine_audio,
        auto=SPEECH2SEQ,
    ),
    Tiny("Moonshine Streaming", moonshine_streaming, streamed_audio, auto=SPEECH2SEQ),
    Tiny("Florence-2", florence2, text, auto=VISION2SEQ),
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
    Tiny("Dia", dia, text, target=(B, T, 2), auto=hf.DiaForConditionalGeneration),
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
        pair(
            bert(),
            bert(hf.RemBertConfig, input_embedding_size=16, output_embedding_size=16, **DECODER),
        ),
        text,
    ),
    Tiny("EncoderDecoder (XGLM)", pair(bert(), xglm()), text),
    Tiny("EncoderDecoder (RoFormer)", pair(bert(), bert(hf.RoFormerConfig, **DECODER)), text),
    Tiny(
        "BLIP text",
        of(
            hf.BlipTextLMHeadModel, hf.BlipTextConfig, BERT, encoder_hidden_size=16, is_decoder=True
        ),
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
    Tiny("FSMT", of(hf.FSMTForConditionalGeneration, hf.FSMTConfig, BART, FSMT), text),
    Tiny(
        "ProphetNet",
        of(hf.ProphetNetForConditionalGeneration, hf.ProphetNetConfig, PROPHETNET),
        text,
    ),
    Tiny(
        "EncoderDecoder (BigBird)",
        pair(bert(), bert(hf.BigBirdConfig, attention_type="original_full", **DECODER)),
        text,
    ),
    Tiny("T5Gemma 2", t5gemma2, text),
]
