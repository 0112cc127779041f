"""fairseq's Transformers of translation: ``model.pt``, ``dict.SOURCE.txt``, ``dict.TARGET.txt`` and
the BPE codes."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, normalizers
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from dwindle.checkpoints import fairseq
from dwindle.checkpoints.format import Checkpoint, Format, Opened, made
from dwindle.models.fairseq import FairseqConfig, FairseqTransformer
from dwindle.models.pieces import END, bpe, merges
from dwindle.models.subword import SubwordCodec

_CONTINUES = "@@"
"""End of a piece that is not the last of its word."""
_ESCAPED = {
    **{"&": "&amp;", "|": "&#124;", "<": "&lt;", ">": "&gt;"},
    **{"'": "&apos;", '"': "&quot;", "[": "&#91;", "]": "&#93;"},
}
"""Signs as Moses' tokenizer writes them."""
_POSITIONS = 1024
_OTHER = {
    "encoder_learned_pos": "learned positions",
    "decoder_learned_pos": "learned positions",
    "no_token_positional_embeddings": "no positions",
    "layernorm_embedding": "a norm after its embeddings",
    "adaptive_softmax_cutoff": "an adaptive softmax",
    "no_scale_embedding": "embeddings that are not scaled",
}
"""Settings that make it another model."""


def _fits(checkpoint: Checkpoint) -> bool:
    return (
        fairseq.is_fairseq(checkpoint)
        and "encoder.embed_positions.weight" not in checkpoint.content["model"]
    )


def _open(checkpoint: Checkpoint) -> Opened:
    given = fairseq.settings(checkpoint)
    for name, what in _OTHER.items():
        if given.get(name):
            raise ValueError(
                f"{checkpoint.file} is a Transformer with {what}, which is not known here ({name})"
            )
    learned = fairseq.weights(checkpoint.content["model"])
    unused = fairseq.unused_norms(checkpoint)
    for name in unused:
        del learned[name]
    config = _config(given, learned, checkpoint)
    model = made(FairseqTransformer, config, _named(learned, config), checkpoint)
    # fairseq never writes padding
    model.generation_config.suppress_tokens = [model.config.pad_token_id]
    codec = _codec(checkpoint, model.config)
    joined = "joined" if model.config.share_encoder_decoder_embeddings else "separate"
    pair = "-".join(language or "?" for language in fairseq.languages(checkpoint))
    about = f"{pair}, {joined} vocabularies"
    if unused:
        names = " and ".join(unused)
        about += f", without {names}, which fairseq does not use in a file of this version"
    return Opened(model, codec, f"a fairseq Transformer, {about}")


def _config(
    given: dict[str, Any], learned: dict[str, Tensor], checkpoint: Checkpoint
) -> FairseqConfig:
    source, target = (learned[f"{part}.embed_tokens.weight"] for part in ("encoder", "decoder"))
    output = learned.get("decoder.output_projection.weight")
    tied = output is None or torch.equal(output, target)
    joined = tied and source.shape == target.shape and torch.equal(source, target)
    lengths = [
        given.get(name) or _POSITIONS for name in ("max_source_positions", "max_target_positions")
    ]
    return FairseqConfig(
        **fairseq.shape(given, learned, checkpoint.file),
        **fairseq.TOKENS,
        vocab_size=len(source),
        decoder_vocab_size=len(target),
        share_encoder_decoder_embeddings=joined,
        tie_word_embeddings=tied,
        scale_embedding=True,
        encoder_normalize_before=bool(given.get("encoder_normalize_before")),
        decoder_normalize_before=bool(given.get("decoder_normalize_before")),
        encoder_final_norm=fairseq.final_norm(checkpoint, "encoder"),
        decoder_final_norm=fairseq.final_norm(checkpoint, "decoder"),
        max_position_embeddings=max(lengths),
        forced_eos_token_id=None,
    )


def _named(learned: dict[str, Tensor], config: FairseqConfig) -> dict[str, Tensor]:
    """The weights as the model calls them, each once; ``learned`` is used up."""
    weights = {f"model.{name}": learned.pop(name) for name in list(learned)}
    output = weights.pop("model.decoder.output_projection.weight", None)
    if not config.tie_word_embeddings and output is not None:
        weights["lm_head.weight"] = output
    if config.share_encoder_decoder_embeddings:
        weights["model.shared.weight"] = weights.pop("model.encoder.embed_tokens.weight")
        del weights["model.decoder.embed_tokens.weight"]
    return weights


def _codec(checkpoint: Checkpoint, config: FairseqConfig) -> SubwordCodec:
    codes = merges(checkpoint.beside("bpecodes", "code", "*.code", "*.codes", what="the BPE codes"))
    sizes = config.vocab_size, config.decoder_vocab_size
    vocabularies = [
        {_piece(symbol): i for i, symbol in enumerate(_symbols(file, size))}
        for file, size in zip(fairseq.dictionaries(checkpoint), sizes, strict=True)
    ]
    source, target = (_tokenizer(vocabulary, codes, max(sizes)) for vocabulary in vocabularies)
    length = config.max_position_embeddings
    return SubwordCodec(
        source,
        length,
        length,
        separator=None,
        known=max(sizes),
        target_tokenizer=None if vocabularies[0] == vocabularies[1] else target,
    )


def _symbols(file: Path, size: int) -> list[str]:
    symbols = fairseq.dictionary(file)
    fairseq.check(file, symbols, size)
    return symbols


def _tokenizer(
    vocabulary: dict[str, int], codes: list[tuple[str, str]], first: int
) -> PreTrainedTokenizerBase:
    """A dictionary and the codes. Pieces that only the codes have get numbers from ``first`` on."""
    made = dict.fromkeys(piece for pair in codes for piece in (*pair, "".join(pair)))
    more = [piece for piece in made if piece not in vocabulary]
    tokenizer = bpe(vocabulary | {piece: first + i for i, piece in enumerate(more)}, codes)
    if any(symbol + END in vocabulary for symbol in _ESCAPED.values()):
        _escape(tokenizer)
    return fairseq.wrapped(tokenizer, "$A </s>")


def _escape(tokenizer: Tokenizer) -> None:
    """Moses writes some signs as entities, and the dictionary has those: texts go in and come out
    with the signs."""
    entities = "|".join(entity[1:] for entity in _ESCAPED.values())
    # a text that is escaped already stays so
    first = normalizers.Replace(Regex(f"&(?!{entities})"), _ESCAPED["&"])
    others = [(sign, entity) for sign, entity in _ESCAPED.items() if sign != "&"]
    tokenizer.normalizer = normalizers.Sequence(
        [first, *(normalizers.Replace(*pair) for pair in others)]
    )
    back = [decoders.Replace(entity, sign) for sign, entity in [*others, ("&", _ESCAPED["&"])]]
    tokenizer.decoder = decoders.Sequence([tokenizer.decoder, decoders.Fuse(), *back])


def _piece(symbol: str) -> str:
    """A symbol of the dictionary as the codes write it."""
    if symbol in fairseq.SPECIAL.values():
        return symbol
    if symbol.endswith(_CONTINUES) and symbol != _CONTINUES:
        return symbol.removesuffix(_CONTINUES)
    return symbol + END


FORMAT = Format("a Transformer of fairseq", _fits, _open)
