"""The paper's models at their published sizes, and smaller ones: Transformer, BertSum and BART.

The models made here have random weights, for a vocabulary that exists; ``build.py`` decides where
weights come from.
"""

import math
from typing import Any

import torch
from torch import nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from dwindle.models.fairseq import FairseqConfig
from dwindle.models.presumm import PreSumm, PreSummConfig, writer
from dwindle.models.sinusoids import longer

Shape = dict[str, Any]


def _layers(width: int, ffn: int, heads: int, layers: int, dropout: float) -> Shape:
    return {"width": width, "ffn": ffn, "heads": heads, "layers": layers, "dropout": dropout}


SIZES: dict[str, dict[str, Shape]] = {
    "transformer": {
        "tiny": _layers(64, 128, 4, 2, 0.1),
        "small": _layers(256, 512, 4, 3, 0.1),
        "base": _layers(512, 2048, 8, 6, 0.1),
        "big": _layers(1024, 4096, 16, 6, 0.3),  # Ott et al. 2018, English-German
    },
    "bart": {
        "tiny": _layers(64, 128, 4, 2, 0.1),
        "base": _layers(768, 3072, 12, 6, 0.1),
        "big": _layers(1024, 4096, 16, 12, 0.1),  # BART-large
    },
    "bertsum": {  # the decoder; PreSumm, abstractive
        "tiny": _layers(64, 128, 4, 2, 0.2),
        "base": _layers(768, 2048, 8, 6, 0.2),
    },
    "pointer-generator": {
        "tiny": {"hidden_size": 32, "embedding_size": 16},
        "small": {"hidden_size": 128, "embedding_size": 64},
        "base": {"hidden_size": 256, "embedding_size": 128},  # See et al. 2017
    },
    "top-down": {
        "tiny": {"hidden_size": 32, "embedding_size": 32, "attention_size": 32, "dropout": 0.1},
        "small": {"hidden_size": 64, "embedding_size": 64, "attention_size": 64, "dropout": 0.1},
        "medium": {
            "hidden_size": 256,
            "embedding_size": 256,
            "attention_size": 256,
            "dropout": 0.5,
        },
        # Melas-Kyriazi et al. 2018
        "base": {"hidden_size": 512, "embedding_size": 512, "attention_size": 512, "dropout": 0.5},
    },
}
BERT = {"tiny": _layers(64, 128, 4, 2, 0.1), "base": _layers(768, 3072, 12, 12, 0.1)}
"""The encoders of BertSum."""
PAPER_LAYERS = {"marian": 1, FairseqConfig.model_type: 1, PreSummConfig.model_type: 1, "bart": 7}
"""Number of last cross-attention layers that have the rule in the paper, by model type."""
_POSITIONS = 512
"""Smallest number of positions, whatever the lengths of training: an output may be longer."""


def shape(kind: str, size: str, dropout: float | None = None) -> Shape:
    """The numbers of a kind at a size, with another dropout if there is one."""
    if size not in SIZES[kind]:
        raise ValueError(f"size={size!r} is unknown: a {kind} comes as {', '.join(SIZES[kind])}")
    if dropout is not None and "dropout" not in SIZES[kind][size]:
        raise ValueError(f"a {kind} has no dropout: leave it out")
    return SIZES[kind][size] | ({} if dropout is None else {"dropout": dropout})


def new(
    kind: str, size: str, dropout: float | None, tokenizer: PreTrainedTokenizerBase, length: int
) -> PreTrainedModel:
    """A model of any kind that reads and writes subwords, for texts of up to ``length`` tokens."""
    numbers = shape(kind, size, dropout)
    if kind == "bertsum":
        return bertsum(numbers, tokenizer, length, BERT[size])
    return {"transformer": transformer, "bart": bart}[kind](numbers, tokenizer, length)


def transformer(numbers: Shape, tokenizer: PreTrainedTokenizerBase, length: int) -> PreTrainedModel:
    """The Transformer of translation on Marian's classes: one embedding for source, target and
    output, sinusoid positions, ReLU, norms after the residuals."""
    config = MarianConfig(
        **_seq2seq(numbers, tokenizer, length),
        decoder_start_token_id=tokenizer.pad_token_id,
        activation_function="relu",
        scale_embedding=True,
        # as fairseq draws embeddings, and square matrices after Xavier
        init_std=numbers["width"] ** -0.5,
    )
    return MarianMTModel(config)


def bart(numbers: Shape, tokenizer: PreTrainedTokenizerBase, length: int) -> PreTrainedModel:
    """BART: learned positions, GELU, norms after the residuals."""
    config = BartConfig(
        **_seq2seq(numbers, tokenizer, length), decoder_start_token_id=tokenizer.eos_token_id
    )
    return BartForConditionalGeneration(config)


def bertsum(
    numbers: Shape,
    tokenizer: PreTrainedTokenizerBase,
    length: int,
    encoder: PreTrainedModel | Shape,
) -> PreTrainedModel:
    """BertSum (PreSumm, abstractive): a BERT that reads, and a new decoder with its embeddings."""
    if isinstance(encoder, PreTrainedModel) and encoder.config.hidden_size != numbers["width"]:
        raise ValueError(
            f"this BERT is {encoder.config.hidden_size} wide and the decoder {numbers['width']}: "
            "no match"
        )
    reader = (
        BertConfig(**_bert(encoder, tokenizer, length))
        if isinstance(encoder, dict)
        else encoder.config
    )
    special = _special(tokenizer)
    config = PreSummConfig(
        encoder=reader.to_dict(),
        decoder=writer(**numbers, vocab_size=len(tokenizer), **special).to_dict(),
        decoder_start_token_id=tokenizer.bos_token_id,
        vocab_size=len(tokenizer),
        **special,
    )
    model = PreSumm(config, None if isinstance(encoder, dict) else encoder)
    with torch.no_grad():
        words = model.encoder.get_input_embeddings().weight
        model.decoder.get_input_embeddings().weight.copy_(words)
    return model


def lengthen(model: PreTrainedModel, length: int) -> None:
    """Make room for ``length`` positions, in the way each kind can.

    A model with relative positions, such as T5, has room for any length.
    """
    kind = model.config.model_type
    most = getattr(model.config, "max_position_embeddings", math.inf)
    if kind == PreSummConfig.model_type:
        _lengthen_bert(model.encoder, length)
    elif kind in ("marian", FairseqConfig.model_type) and length > most:
        for part in (model.model.encoder, model.model.decoder):
            part.embed_positions = longer(part.embed_positions, length)
        model.config.max_position_embeddings = length
    elif length > most:
        raise ValueError(
            f"a length of {length} tokens, but this {kind} model has {most} positions: pass at "
            "most that"
        )


def _lengthen_bert(bert: PreTrainedModel, length: int) -> None:
    """As PreSumm: the positions that BERT does not have begin as copies of its last one."""
    part, old = bert.embeddings, bert.embeddings.position_embeddings.weight
    if length <= len(old):
        return
    table = nn.Embedding(length, old.shape[1], dtype=old.dtype, device=old.device)
    with torch.no_grad():
        table.weight.copy_(torch.cat([old, old[-1:].expand(length - len(old), -1)]))
    part.position_embeddings = table
    places = torch.arange(length, device=old.device)[None]
    part.register_buffer("position_ids", places, persistent=False)
    part.register_buffer("token_type_ids", torch.zeros_like(places), persistent=False)
    bert.config.max_position_embeddings = length


def _seq2seq(numbers: Shape, tokenizer: PreTrainedTokenizerBase, length: int) -> dict[str, Any]:
    parts = {
        "layers": numbers["layers"],
        "ffn_dim": numbers["ffn"],
        "attention_heads": numbers["heads"],
    }
    return {
        "d_model": numbers["width"],
        **{
            f"{side}_{name}": value
            for side in ("encoder", "decoder")
            for name, value in parts.items()
        },
        "dropout": numbers["dropout"],
        "max_position_embeddings": max(_POSITIONS, length),
        "vocab_size": len(tokenizer),
        "forced_eos_token_id": None,
        **_special(tokenizer),
    }


def _bert(numbers: Shape, tokenizer: PreTrainedTokenizerBase, length: int) -> dict[str, Any]:
    return {
        "hidden_size": numbers["width"],
        "intermediate_size": numbers["ffn"],
        "num_attention_heads": numbers["heads"],
        "num_hidden_layers": numbers["layers"],
        "hidden_dropout_prob": numbers["dropout"],
        "attention_probs_dropout_prob": numbers["dropout"],
        "max_position_embeddings": max(_POSITIONS, length),
        "vocab_size": len(tokenizer),
        **_special(tokenizer),
    }


def _special(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    return {
        f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")
    }
