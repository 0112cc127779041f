"""The support table: which model families take a rule, by which path, and what was checked on each.

Data only: it imports no model library, and says nothing that the tests do not run. The matrix in
``tests/attaching/test_families.py`` has one tiny model for each row, and runs exactly the checks
named here.
"""

from dataclasses import dataclass
from typing import Literal

from dwindle.attaching.find import REFUSED

CHECKS = {
    "identity": "with dim:identity, the logits are those of the untouched model",
    "rows": "all rows at once, one by one with a cache, and in chunks give the same logits",
    "generate": "greedy and beam-4 generate() give the same with and without a cache, "
    "and would not if coverage were not reordered with the beams",
    "save": "saved and loaded again, the logits are the same bit for bit",
    "detach": "detached, the model gives its first outputs bit for bit, with its first config",
}
"""The checks that a family can go through."""


@dataclass(frozen=True)
class Family:
    """One row of the support table."""

    name: str
    model: str
    """The class of the checked model; a joined one names its decoder in ``name``."""
    model_type: str
    """``config.model_type`` of the part that has the cross-attention."""
    path: Literal["registry", "hand-written", "refused"]
    """Through the library's attention registry, around the family's own softmax, or not at all."""
    remark: str = ""
    checked: tuple[str, ...] = tuple(CHECKS)
    """Keys of ``CHECKS``; none for a refused family."""


_WITHOUT_GENERATE = tuple(check for check in CHECKS if check != "generate")


def _registry(name: str, model: str, model_type: str, remark: str = "") -> Family:
    return Family(name, model, model_type, "registry", remark)


def _hand_written(name: str, model: str, model_type: str, remark: str = "") -> Family:
    return Family(name, model, model_type, "hand-written", remark)


def _refused(name: str, model: str, model_type: str) -> Family:
    return Family(name, model, model_type, "refused", REFUSED[model_type], checked=())


_JOINED, _VISION = "EncoderDecoderModel", "VisionEncoderDecoderModel"

FAMILIES = (
    _registry("BART", "BartForConditionalGeneration", "bart"),
    _registry("T5", "T5ForConditionalGeneration", "t5"),
    _registry("Marian", "MarianMTModel", "marian"),
    _registry("Pegasus", "PegasusForConditionalGeneration", "pegasus"),
    _registry("mBART", "MBartForConditionalGeneration", "mbart"),
    _registry("M2M100 / NLLB", "M2M100ForConditionalGeneration", "m2m_100"),
    _registry(
        "Whisper", "WhisperForConditionalGeneration", "whisper", "also its own long-form generate()"
    ),
    _registry("EncoderDecoder (BERT)", _JOINED, "bert"),
    _registry("EncoderDecoder (RoBERTa)", _JOINED, "roberta"),
    _registry("EncoderDecoder (XLM-RoBERTa)", _JOINED, "xlm-roberta"),
    _registry("EncoderDecoder (XLM-RoBERTa-XL)", _JOINED, "xlm-roberta-xl"),
    _registry("EncoderDecoder (CamemBERT)", _JOINED, "camembert"),
    _registry("EncoderDecoder (Data2VecText)", _JOINED, "data2vec-text"),
    _registry("EncoderDecoder (RoBERTa-PreLayerNorm)", _JOINED, "roberta-prelayernorm"),
    _registry("EncoderDecoder (X-MOD)", _JOINED, "xmod"),
    _registry("EncoderDecoder (ELECTRA)", _JOINED, "electra"),
    _registry("EncoderDecoder (ERNIE)", _JOINED, "ernie"),
    _registry("EncoderDecoder (RoCBert)", _JOINED, "roc_bert"),
    _registry("EncoderDecoder (BertGeneration)", _JOINED, "bert-generation"),
    _registry("EncoderDecoder (GPT-2)", _JOINED, "gpt2"),
    _registry("Pegasus-X", "PegasusXForConditionalGeneration", "pegasus_x"),
    _registry("NLLB-MoE", "NllbMoeForConditionalGeneration", "nllb-moe"),
    _registry("Blenderbot", "BlenderbotForConditionalGeneration", "blenderbot"),
    _registry("Blenderbot Small", "BlenderbotSmallForConditionalGeneration", "blenderbot-small"),
    _registry("PLBart", "PLBartForConditionalGeneration", "plbart"),
    _registry(
        "BigBirdPegasus",
        "BigBirdPegasusForConditionalGeneration",
        "bigbird_pegasus",
        "encoder with attention_type='original_full'",
    ),
    _registry("mT5", "MT5ForConditionalGeneration", "mt5"),
    _registry("UMT5", "UMT5ForConditionalGeneration", "umt5"),
    _registry(
        "LongT5", "LongT5ForConditionalGeneration", "longt5", "local attention in the encoder"
    ),
    _registry(
        "Switch Transformers", "SwitchTransformersForConditionalGeneration", "switch_transformers"
    ),
    _registry("T5Gemma", "T5GemmaForConditionalGeneration", "t5_gemma_module"),
    _registry("UDOP", "UdopForConditionalGeneration", "udop", "text and boxes"),
    _registry("VisionEncoderDecoder (BERT)", _VISION, "bert"),
    _registry("VisionEncoderDecoder (mBART)", _VISION, "mbart"),
    _registry("Speech2Text", "Speech2TextForConditionalGeneration", "speech_to_text"),
    _registry("SeamlessM4T", "SeamlessM4TForTextToText", "seamless_m4t", "text to text"),
    _registry(
        "SeamlessM4T v2",
        "SeamlessM4Tv2ForTextToText",
        "seamless_m4t_v2",
        "text to text",
    ),
    _registry("Canary", "CanaryForConditionalGeneration", "canary_decoder"),
    _registry("Cohere ASR", "CohereAsrForConditionalGeneration", "cohere_asr"),
    _registry("Moonshine", "MoonshineForConditionalGeneration", "moonshine"),
    Family(
        "Moonshine Streaming",
        "MoonshineStreamingForConditionalGeneration",
        "moonshine_streaming",
        "registry",
        "each call of the untouched model changes the encoder's output, so generate() without a "
        "cache is not a measure",
        _WITHOUT_GENERATE,
    ),
    _registry("Florence-2", "Florence2ForConditionalGeneration", "bart", "text input only"),
    _registry("Pix2Struct", "Pix2StructForConditionalGeneration", "pix2struct_text_model"),
    Family(
        "Musicgen decoder",
        "MusicgenForCausalLM",
        "musicgen_decoder",
        "registry",
        "its own generate() has no beams and was not checked",
        _WITHOUT_GENERATE,
    ),
    Family(
        "Dia",
        "DiaForConditionalGeneration",
        "dia_decoder",
        "registry",
        "its own generate() has no beams and was not checked",
        _WITHOUT_GENERATE,
    ),
    _registry(
        "Mllama",
        "MllamaForConditionalGeneration",
        "mllama_text_model",
        "with its cross-attention mask: without one, the untouched model under SDPA attends "
        "causally",
    ),
    _hand_written("LED", "LEDForConditionalGeneration", "led"),
    _hand_written("MVP", "MvpForConditionalGeneration", "mvp"),
    _hand_written("TrOCR", _VISION, "trocr"),
    _hand_written("EncoderDecoder (RemBERT)", _JOINED, "rembert"),
    _hand_written("EncoderDecoder (XGLM)", _JOINED, "xglm"),
    _hand_written("EncoderDecoder (RoFormer)", _JOINED, "roformer"),
    _hand_written("BLIP text", "BlipTextLMHeadModel", "blip_text_model"),
    _hand_written("SpeechT5", "SpeechT5ForSpeechToText", "speecht5", "speech to text"),
    _refused("FSMT", "FSMTForConditionalGeneration", "fsmt"),
    _refused("ProphetNet", "ProphetNetForConditionalGeneration", "prophetnet"),
    _refused("EncoderDecoder (BigBird)", _JOINED, "big_bird"),
    _refused("T5Gemma 2", "T5Gemma2ForConditionalGeneration", "t5gemma2"),
)
"""Every family, in the order of the printed table."""
