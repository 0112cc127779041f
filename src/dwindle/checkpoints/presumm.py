"""PreSumm's abstractive models: ``model_step_N.pt``, and the ``vocab.txt`` of their BERT."""

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor
from transformers import BertConfig, BertTokenizer

from dwindle.checkpoints import safe
from dwindle.checkpoints.format import (
    Checkpoint,
    Format,
    Opened,
    layers,
    made,
    mismatch,
    text,
    weight,
)
from dwindle.models.presumm import PreSumm, PreSummConfig, writer
from dwindle.models.subword import PRESUMM, SubwordCodec

_ENCODER, _DECODER = "bert.model.", "decoder.transformer_layers."
_HEAD = 64
"""The width of each head of a BERT."""
_TARGET = 140
"""The longest target of PreSumm's training, its start token included."""
_PARTS = {
    r"^bert\.model\.": "encoder.",
    r"^decoder\.embeddings\.": "decoder.model.decoder.embed_tokens.",
    r"^generator\.0\.": "decoder.lm_head.",
    r"^decoder\.layer_norm\.": "decoder.model.decoder.layer_norm.",
    r"^decoder\.transformer_layers\.": "decoder.model.decoder.layers.",
    r"\.context_attn\.": ".encoder_attn.",
    r"\.linear_keys\.": ".k_proj.",
    r"\.linear_values\.": ".v_proj.",
    r"\.linear_query\.": ".q_proj.",
    r"\.final_linear\.": ".out_proj.",
    r"\.layer_norm_1\.": ".self_attn_layer_norm.",
    r"\.layer_norm_2\.": ".encoder_attn_layer_norm.",
    r"\.feed_forward\.layer_norm\.": ".final_layer_norm.",
    r"\.feed_forward\.w_(\d)\.": r".fc\1.",
}
"""PreSumm's names of weights, and ours."""
_LEFT = re.compile(
    r"\.pooler\.|\.position_ids$|^decoder\.pos_emb\.pe$|\.mask$|^generator\.0\.weight$"
)
"""Weights that are not read: never used, computed, or shared with the embedding."""


def _fits(checkpoint: Checkpoint) -> bool:
    weights = checkpoint.content.get("model")
    return (
        "opt" in checkpoint.content
        and isinstance(weights, Mapping)
        and any(n.startswith(_ENCODER) for n in weights)
    )


def _open(checkpoint: Checkpoint) -> Opened:
    stored, given = checkpoint.content["model"], safe.settings(checkpoint.content["opt"])
    if not any(name.startswith(_DECODER) for name in stored):
        raise ValueError(
            f"{checkpoint.file} is PreSumm's extractive model, which writes nothing: take an "
            "abstractive one"
        )
    learned = {_renamed(name): value for name, value in stored.items() if not _LEFT.search(name)}
    tokenizer = _tokenizer(checkpoint)
    rows = len(weight(stored, "decoder.embeddings.weight", checkpoint.file))
    if len(tokenizer) != rows:
        raise ValueError(
            f"the vocab.txt beside {checkpoint.file} has {len(tokenizer)} words, but the model "
            f"{rows}: put that of its own BERT there"
        )
    special = {
        f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")
    }
    config = PreSummConfig(
        encoder=_reader(stored, given, checkpoint).to_dict(),
        decoder=_writer(stored, given, special, checkpoint).to_dict(),
        decoder_start_token_id=tokenizer.bos_token_id,
        vocab_size=rows,
        **special,
    )
    model = made(PreSumm, config, learned, checkpoint)
    # PreSumm's longest target counts the start token, ours does not
    lengths = config.encoder.max_position_embeddings, given.get("max_tgt_len", _TARGET) - 1
    codec = SubwordCodec(
        tokenizer, *lengths, PRESUMM["separator"], sentences=True, wordpiece="spaces"
    )
    depths = config.encoder.num_hidden_layers, config.decoder.decoder_layers
    return Opened(
        model,
        codec,
        f"PreSumm's abstractive model, {depths[0]} layers of BERT and {depths[1]} of its own",
    )


def _renamed(name: str) -> str:
    for old, new in _PARTS.items():
        name = re.sub(old, new, name)
    return name


def _tokenizer(checkpoint: Checkpoint) -> BertTokenizer:
    file = checkpoint.beside("vocab.txt", what="the vocabulary of BERT (bert-base-uncased)")
    words = text(file).rstrip("\n").split("\n")
    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(words)}, do_lower_case=True)
    if missing := set(PRESUMM.values()) - tokenizer.get_vocab().keys():
        raise ValueError(
            f"{file} has no {min(missing)}, which PreSumm writes with: put the vocabulary of its "
            "BERT there"
        )
    tokenizer.add_special_tokens(
        {name: token for name, token in PRESUMM.items() if name != "separator"}
    )
    return tokenizer


def _reader(
    stored: Mapping[str, Tensor], given: dict[str, Any], checkpoint: Checkpoint
) -> BertConfig:
    file = checkpoint.file
    words = weight(stored, f"{_ENCODER}embeddings.word_embeddings.weight", file)
    positions = weight(stored, f"{_ENCODER}embeddings.position_embeddings.weight", file)
    inner = weight(stored, f"{_ENCODER}encoder.layer.0.intermediate.dense.weight", file)
    baseline = given.get("encoder") == "baseline"  # a new encoder of 8 heads in BERT's place
    dropout = given.get("enc_dropout", 0.2) if baseline else 0.1
    return BertConfig(
        vocab_size=len(words),
        hidden_size=words.shape[1],
        intermediate_size=len(inner),
        num_hidden_layers=layers(stored, f"{_ENCODER}encoder.layer.", file),
        num_attention_heads=8 if baseline else max(words.shape[1] // _HEAD, 1),
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        max_position_embeddings=len(positions),
    )


def _writer(
    stored: Mapping[str, Tensor],
    given: dict[str, Any],
    special: dict[str, int],
    checkpoint: Checkpoint,
) -> Any:
    inner = weight(stored, f"{_DECODER}0.feed_forward.w_1.weight", checkpoint.file)
    heads = given.get("dec_heads")
    if not heads:
        raise mismatch(checkpoint.file, "no dec_heads among its settings")
    return writer(
        width=inner.shape[1],
        ffn=len(inner),
        heads=heads,
        layers=layers(stored, _DECODER, checkpoint.file),
        dropout=given.get("dec_dropout", 0.2),
        vocab_size=len(stored["decoder.embeddings.weight"]),
        **special,
    )


FORMAT = Format("an abstractive model of PreSumm", _fits, _open)
