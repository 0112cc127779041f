"""fairseq's BART: ``model.pt``, ``dict.txt`` (or ``dict.source.txt``), and GPT-2's ``encoder.json``
and ``vocab.bpe``.

A dictionary of BART has GPT-2's numbers of tokens as its words; what they stand for is in GPT-2's
own two files.
"""

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerBase

from dwindle.checkpoints import fairseq
from dwindle.checkpoints.format import Checkpoint, Format, Opened, made
from dwindle.models.subword import SubwordCodec

_MASK = "<mask>"
_GPT2 = "GPT-2's vocabulary, which fairseq fetches on its own"
_ELSEWHERE = (
    *("encoder.embed_tokens.", "decoder.embed_tokens.", "decoder.output_projection."),  # one table
    "classification_heads.",  # of other tasks
)
_OFFSET = 2
"""Number of rows of positions before that of the first token."""


def _fits(checkpoint: Checkpoint) -> bool:
    return (
        fairseq.is_fairseq(checkpoint)
        and "encoder.layernorm_embedding.weight" in checkpoint.content["model"]
    )


def _open(checkpoint: Checkpoint) -> Opened:
    given = fairseq.settings(checkpoint)
    learned = fairseq.weights(checkpoint.content["model"])
    first = any(given.get(f"{part}_normalize_before") for part in ("encoder", "decoder"))
    if first or "encoder.layer_norm.weight" in learned:
        raise ValueError(
            f"{checkpoint.file} is an mBART, with norms before its layers, which is not known here"
        )
    dictionary, other = fairseq.dictionaries(checkpoint)
    if other.read_bytes() != dictionary.read_bytes():
        raise ValueError(
            f"{dictionary} and {other.name} differ, but a BART has one: put the model's own there"
        )
    symbols = fairseq.dictionary(dictionary)
    learned["words"] = _words(learned["encoder.embed_tokens.weight"], symbols)
    rows = len(learned["words"])
    fairseq.check(dictionary, symbols, rows)
    gpt2 = (checkpoint.beside(name, what=_GPT2) for name in ("encoder.json", "vocab.bpe"))
    tokenizer = _tokenizer(symbols, *gpt2)
    config = _config(given, learned, rows, checkpoint.file)
    model = made(BartForConditionalGeneration, config, _named(learned), checkpoint)
    model.generation_config.suppress_tokens = [config.pad_token_id]  # fairseq never writes padding
    # every text begins with <s>
    model.generation_config.forced_bos_token_id = config.bos_token_id
    length = config.max_position_embeddings
    codec = SubwordCodec(tokenizer, length, length, separator=None, known=rows)
    return Opened(
        model, codec, f"a fairseq BART of {config.encoder_layers} + {config.decoder_layers} layers"
    )


def _words(embedding: Tensor, symbols: list[str]) -> Tensor:
    """Drop the last row, the mask's, where the dictionary is one of translation and has no mask, as
    fairseq does."""
    masked = len(embedding) == len(symbols) + 1 and _MASK not in symbols
    return embedding[:-1] if masked else embedding


def _config(given: dict[str, Any], learned: dict[str, Tensor], rows: int, file: Path) -> BartConfig:
    return BartConfig(
        **fairseq.shape(given, learned, file),
        **fairseq.TOKENS,
        vocab_size=rows,
        max_position_embeddings=len(learned["encoder.embed_positions.weight"]) - _OFFSET,
        scale_embedding=not given.get("no_scale_embedding", True),
        forced_eos_token_id=None,
    )


def _named(learned: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights as the model calls them, its only table of words once; ``learned`` is used up."""
    named = {"model.shared.weight": learned.pop("words")}
    named |= {f"model.{name}": learned[name] for name in learned if not name.startswith(_ELSEWHERE)}
    learned.clear()
    return named


def _tokenizer(symbols: list[str], encoder: Path, merges: Path) -> PreTrainedTokenizerBase:
    """GPT-2's way to cut texts, with the dictionary's numbers; tokens it lacks come behind."""
    try:
        spelt = {
            str(number): token
            for token, number in json.loads(encoder.read_text(encoding="utf-8")).items()
        }
        lines = merges.read_text(encoding="utf-8").split("\n")[1:]
    except (ValueError, AttributeError):
        raise ValueError(f"{encoder} or {merges} is not GPT-2's: get them again") from None
    vocabulary = {spelt.get(symbol, symbol): i for i, symbol in enumerate(symbols)}
    more = [token for token in spelt.values() if token not in vocabulary]
    vocabulary |= {token: len(symbols) + i for i, token in enumerate(more)}
    pairs = [(pair[0], pair[1]) for line in lines if len(pair := line.split()) == 2]
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if _MASK in vocabulary:
        tokenizer.add_special_tokens([AddedToken(_MASK, lstrip=True)])
    return fairseq.wrapped(tokenizer, "<s> $A </s>")


FORMAT = Format("a BART of fairseq", _fits, _open)
