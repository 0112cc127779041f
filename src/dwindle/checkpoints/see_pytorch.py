"""See's pointer-generator in PyTorch, as atulkum/pointer_summarizer has it: weights, ``vocab``.

The model is See's, but its inputs are joined in another order, so columns change places.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from dwindle.checkpoints.format import Checkpoint, Format, Opened, weight
from dwindle.checkpoints.see import opened

_PARTS = ("encoder_state_dict", "decoder_state_dict", "reduce_state_dict")


def _fits(checkpoint: Checkpoint) -> bool:
    return checkpoint.content.keys() >= set(_PARTS)


def _open(checkpoint: Checkpoint) -> Opened:
    encoder, decoder, reduce = (checkpoint.content[part] for part in _PARTS)
    weights = _weights(encoder, decoder, reduce, checkpoint.file)
    return opened(checkpoint, weights, "See's pointer-generator in PyTorch")


def _weights(
    encoder: Mapping[str, Tensor],
    decoder: Mapping[str, Tensor],
    reduce: Mapping[str, Tensor],
    file: Path,
) -> dict[str, Tensor]:
    def linear(ours: str, part: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
        return {
            f"{ours}.{kind}": weight(part, f"{name}.{kind}", file) for kind in ("weight", "bias")
        }

    weights = {
        "encoder.embedding.weight": weight(encoder, "embedding.weight", file),
        "encoder.keys.weight": weight(encoder, "W_h.weight", file),
        "decoder.score.weight": weight(decoder, "attention_network.v.weight", file),
        **linear("encoder.reduce_hidden", reduce, "reduce_h"),
        **linear("encoder.reduce_cell", reduce, "reduce_c"),
        **linear("decoder.feed", decoder, "x_context"),
        **linear("decoder.query", decoder, "attention_network.decode_proj"),
        **linear("switch", decoder, "p_gen_linear"),
        **linear("merge", decoder, "out1"),
        **linear("vocabulary", decoder, "out2"),
    }
    if "attention_network.W_c.weight" in decoder:
        weights["decoder.covered.weight"] = decoder["attention_network.W_c.weight"]
    hidden, words = len(weights["merge.bias"]), weights["encoder.embedding.weight"].shape[1]
    swap = {  # (widths of the columns there, their order here)
        "decoder.feed.weight": ((2 * hidden, words), (1, 0)),  # context, word
        "decoder.query.weight": ((hidden, hidden), (1, 0)),  # hidden, cell
        # columns: context, hidden, cell, fed
        "switch.weight": ((2 * hidden, hidden, hidden, words), (0, 2, 1, 3)),
    }
    for name, (widths, order) in swap.items():
        columns = torch.split(weights[name], list(widths), 1)
        weights[name] = torch.cat([columns[i] for i in order], 1)
    for suffix in ("", "_reverse"):
        ih, hh, bias = _cell(encoder, f"l0{suffix}", file)
        weights[f"encoder.lstm.weight_ih_l0{suffix}"] = torch.cat([ih, bias[:, None]], 1)
        weights[f"encoder.lstm.weight_hh_l0{suffix}"] = hh
    ih, hh, weights["decoder.gates.bias"] = _cell(decoder, "l0", file)
    weights["decoder.gates.weight"] = torch.cat([ih, hh], 1)
    return weights


def _cell(part: Mapping[str, Tensor], suffix: str, file: Path) -> tuple[Tensor, Tensor, Tensor]:
    """The weights of input and state of an LSTM, and its two biases as one."""
    ih, hh, one, two = (
        weight(part, f"lstm.{name}_{suffix}", file)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    return ih, hh, one + two


FORMAT = Format("a PyTorch port of See's pointer-generator", _fits, _open)
