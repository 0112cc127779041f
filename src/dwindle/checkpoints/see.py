"""See's pointer-generator in TensorFlow: ``model-N.index``, ``model-N.data-...`` and ``vocab``.

It also holds what See's code and its ports share: the vocabulary, and a model from named weights.
"""

import csv
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from dwindle.checkpoints.format import Checkpoint, Format, Opened, made, weight
from dwindle.models.pointer_generator.config import PointerGeneratorConfig
from dwindle.models.pointer_generator.model import PointerGenerator
from dwindle.models.pointer_generator.words import WordCodec
from dwindle.models.vocabulary import Vocabulary

SPECIAL = ["[UNK]", "[PAD]", "[START]", "[STOP]"]
"""The first words of See's vocabulary; the others follow from the file."""
_OURS = [1, 0, 2, 3]
"""Number of each of our special words among See's."""
_DECODER = "seq2seq/decoder/attention_decoder"
_FORGET = 1.0
"""Number that TensorFlow's cell adds to the forget gate while it runs."""


def _fits(checkpoint: Checkpoint) -> bool:
    return "seq2seq/embedding/embedding" in checkpoint.content


def _open(checkpoint: Checkpoint) -> Opened:
    return opened(
        checkpoint, _weights(checkpoint.content, checkpoint.file), "See's pointer-generator"
    )


def opened(checkpoint: Checkpoint, weights: dict[str, Tensor], name: str) -> Opened:
    """A pointer-generator from weights that are named as ours, its words still in See's order."""
    for table in ("encoder.embedding.weight", "vocabulary.weight", "vocabulary.bias"):
        weights[table] = weights[table][[*_OURS, *range(len(SPECIAL), len(weights[table]))]]
    rows, width = weights["encoder.embedding.weight"].shape
    covered = "decoder.covered.weight" in weights
    config = PointerGeneratorConfig(
        vocab_size=rows,
        embedding_size=width,
        hidden_size=len(weights["encoder.reduce_hidden.bias"]),
        coverage=covered,
    )
    model = made(PointerGenerator, config, weights, checkpoint)
    words = _words(checkpoint.beside("vocab", "vocab_metadata.tsv", what="the vocabulary"), rows)
    return Opened(
        model, WordCodec(Vocabulary(words)), f"{name}, {'with' if covered else 'without'} coverage"
    )


def _words(file: Path, rows: int) -> list[str]:
    """The words after the special ones, as See's code reads them: the first ``rows`` in all."""
    # training writes a table for TensorBoard: all words, special ones first
    if file.suffix == ".tsv":
        with file.open(encoding="utf-8", newline="") as table:
            words = [row[0] for row in csv.reader(table, delimiter="\t") if row][len(SPECIAL) :]
    else:  # bytes: Python 2 parts lines at spaces of ASCII only
        pairs = (line.split() for line in file.read_bytes().split(b"\n"))
        words = [pair[0].decode("utf-8", "replace") for pair in pairs if len(pair) == 2]
    wanted = rows - len(SPECIAL)
    if len(words) < wanted:
        raise ValueError(
            f"{file} has {len(words)} words, but the model {wanted}: put the model's own "
            "vocabulary there"
        )
    return words[:wanted]


def _weights(stored: Mapping[str, Tensor], file: Path) -> dict[str, Tensor]:
    """TensorFlow's variables under our names: its matrices are transposed."""

    def matrix(name: str) -> Tensor:
        return weight(stored, name, file).T

    def linear(ours: str, name: str) -> dict[str, Tensor]:
        return {
            f"{ours}.weight": matrix(f"{name}/Linear/Matrix"),
            f"{ours}.bias": weight(stored, f"{name}/Linear/Bias", file),
        }

    weights = {
        "encoder.embedding.weight": weight(stored, "seq2seq/embedding/embedding", file),
        "encoder.reduce_hidden.weight": matrix("seq2seq/reduce_final_st/w_reduce_h"),
        "encoder.reduce_hidden.bias": weight(stored, "seq2seq/reduce_final_st/bias_reduce_h", file),
        "encoder.reduce_cell.weight": matrix("seq2seq/reduce_final_st/w_reduce_c"),
        "encoder.reduce_cell.bias": weight(stored, "seq2seq/reduce_final_st/bias_reduce_c", file),
        "encoder.keys.weight": weight(stored, f"{_DECODER}/W_h", file)[0, 0].T,
        "decoder.score.weight": weight(stored, f"{_DECODER}/v", file)[None],
        "vocabulary.weight": matrix("seq2seq/output_projection/w"),
        "vocabulary.bias": weight(stored, "seq2seq/output_projection/v", file),
        **linear("decoder.feed", _DECODER),
        **linear("decoder.query", f"{_DECODER}/Attention"),
        **linear("switch", f"{_DECODER}/calculate_pgen"),
        **linear("merge", f"{_DECODER}/AttnOutputProjection"),
    }
    if f"{_DECODER}/coverage/w_c" in stored:
        weights["decoder.covered.weight"] = stored[f"{_DECODER}/coverage/w_c"][0, 0].T
    size = weights["encoder.embedding.weight"].shape[1]
    for way, suffix in (("fw", ""), ("bw", "_reverse")):
        gates, bias = _cell(stored, f"seq2seq/encoder/bidirectional_rnn/{way}/lstm_cell", file)
        weights[f"encoder.lstm.weight_ih_l0{suffix}"] = torch.cat(
            [gates[:, :size], bias[:, None]], 1
        )
        weights[f"encoder.lstm.weight_hh_l0{suffix}"] = gates[:, size:]
    weights["decoder.gates.weight"], weights["decoder.gates.bias"] = _cell(
        stored, f"{_DECODER}/lstm_cell", file
    )
    return weights


def _cell(stored: Mapping[str, Tensor], name: str, file: Path) -> tuple[Tensor, Tensor]:
    """Weights (4H, E + H), bias (4H,) of an LSTM; its gates: input, candidate, forget, output."""
    # the names of TensorFlow 1.0, and those since 1.2
    kernel, bias = ("weights", "biases") if f"{name}/weights" in stored else ("kernel", "bias")

    def ours(gates: Tensor, more: float = 0.0) -> Tensor:
        enter, new, keep, leave = gates.chunk(4)
        return torch.cat([enter, keep + more, new, leave])

    return ours(weight(stored, f"{name}/{kernel}", file).T), ours(
        weight(stored, f"{name}/{bias}", file), _FORGET
    )


FORMAT = Format("See's pointer-generator", _fits, _open)
