"""Tiny library checkpoints in the published formats, made here, and pairs of texts to build
with."""

from pathlib import Path

import torch
import transformers as hf
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from dwindle.models.build import build
from dwindle.models.settings import ModelSettings

PAIRS = [
    (
        f"the cat number {i} sat on the mat .\nit was {i % 12} o'clock then .",
        f"cat {i} sat .\nat {i % 12} .",
    )
    for i in range(30)
]


def settings(kind: str, **given) -> ModelSettings:
    return ModelSettings(
        **{
            "kind": kind,
            "size": "tiny",
            "vocabulary": 330,
            "source_length": 40,
            "target_length": 20,
            **given,
        }
    )


def built(kind: str, seed: int = 1, **given):
    return build(settings(kind, **given), lambda: iter(PAIRS), seed)


def spread(model: torch.nn.Module, by: float = 0.4) -> None:
    """Draw all matrices wide, so that attention is sharp and a wrong row shows."""
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1 and p.requires_grad:
                p.normal_(0, by, generator=draw)


def bert(folder: Path) -> Path:
    """As bert-base-uncased comes: WordPiece with unused tokens, and an encoder with a masked
    language model's head."""
    special = ["[PAD]", "[unused0]", "[unused1]", "[unused2]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted({w for pair in PAIRS for text in pair for w in text.replace("'", " ' ").split()})
    vocabulary = {token: i for i, token in enumerate([*special, *words, "##s"])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    hf.BertTokenizer(
        tokenizer_object=tokenizer, vocab=vocabulary, do_lower_case=True
    ).save_pretrained(folder)  # fmt: skip
    shape = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
    }
    config = hf.BertConfig(vocab_size=len(vocabulary), max_position_embeddings=16, **shape)
    hf.BertForMaskedLM(config).save_pretrained(folder)
    return folder


def bart(folder: Path) -> Path:
    """As bart-large comes: byte-level BPE and the whole model, without a codec's file."""
    model, codec = built("bart")
    codec.tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def marian(folder: Path) -> Path:
    """As opus-mt models come: two SentencePiece models, one vocabulary, no newline in it."""
    import json

    import sentencepiece

    folder.mkdir(parents=True)
    (folder / "text").write_text(
        "\n".join(text for pair in PAIRS for text in pair), encoding="utf-8"
    )
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "x"), vocab_size=60, minloglevel=2
    )
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "x.model"))
    names = [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]
    vocabulary = {token: i for i, token in enumerate(["</s>", "<unk>", *names, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    files = {"source_spm": str(folder / "x.model"), "target_spm": str(folder / "x.model")}
    hf.MarianTokenizer(vocab=str(folder / "vocab.json"), **files).save_pretrained(folder)
    pad = vocabulary["<pad>"]
    shape = {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
    }
    heads = {
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "max_position_embeddings": 16,
    }
    ids = {
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "vocab_size": len(vocabulary),
    }
    hf.MarianMTModel(hf.MarianConfig(**shape, **heads, **ids)).save_pretrained(folder)
    return folder


def t5(folder: Path) -> Path:
    """As flan-t5 comes: Unigram pieces, relative positions, an output layer of its own."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=90, special_tokens=special, unk_token="<unk>")
    tokenizer.train_from_iterator((text for pair in PAIRS for text in pair), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    hf.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    shape = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_heads": 2, "num_layers": 2}
    config = hf.T5Config(vocab_size=tokenizer.get_vocab_size(), decoder_start_token_id=0, **shape)
    model = hf.T5ForConditionalGeneration(config)
    model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
    model.save_pretrained(folder)
    return folder
