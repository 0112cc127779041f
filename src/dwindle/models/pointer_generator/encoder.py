"""The encoder: a bidirectional LSTM over the source, reduced to the decoder's first state.

It also computes what the attention compares with (W_h h_i), once for all decoding steps.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.utils import ModelOutput

from dwindle.core.coverage import state_dtype
from dwindle.models.pointer_generator.config import PointerGeneratorConfig
from dwindle.models.recurrent import lstm
from dwindle.native.functions import KERNEL

_ALWAYS = 1e4
"""A gate's input that opens it fully, whatever else comes in."""


@dataclass
class EncodedSource(ModelOutput):
    """A source. Every field has B first, so that ``generate()`` fans it out into beams."""

    last_hidden_state: Tensor
    """(B, S, 2H): h_i, forwards and backwards."""
    attention_keys: Tensor = None  # type: ignore[assignment]  # the library's outputs require a default
    """(B, S, 2H): W_h h_i."""
    hidden: Tensor = None  # type: ignore[assignment]
    """(B, H): the decoder's first state."""
    cell: Tensor = None  # type: ignore[assignment]
    """(B, H)."""


class Encoder(nn.Module):
    """input_ids (B, S) -> ``EncodedSource``. Owns the embedding that the decoder shares."""

    main_input_name = "input_ids"

    def __init__(self, config: PointerGeneratorConfig) -> None:
        super().__init__()
        hidden, words = config.hidden_size, config.embedding_size
        self.embedding = nn.Embedding(config.vocab_size, words)
        # See's cell has one bias, torch's has two: here the last column of the input weights, for
        # an input that is 1.
        self.lstm = nn.LSTM(words + 1, hidden, bias=False, batch_first=True, bidirectional=True)
        self.reduce_hidden = nn.Linear(2 * hidden, hidden)
        self.reduce_cell = nn.Linear(2 * hidden, hidden)
        self.keys = nn.Linear(2 * hidden, 2 * hidden, bias=False)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> EncodedSource:
        """``attention_mask`` (B, S): 1 for words, then 0 for padding; None without padding."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        check_source(input_ids, mask, self.embedding.num_embeddings)
        memory, hidden, cell = read_both_ways(
            self.lstm, F.pad(self.embedding(input_ids), (0, 1), value=1.0), mask.bool()
        )
        return EncodedSource(
            last_hidden_state=memory,
            attention_keys=self.keys(memory),
            hidden=self.reduce_hidden(hidden).relu(),
            cell=self.reduce_cell(cell).relu(),
        )


def read_both_ways(layer: nn.LSTM, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All states (B, S, 2H), last hidden and cell state (B, 2H), each forwards, then backwards.

    What ``pack_padded_sequence`` is for, but that is five times slower here: on a CPU its gradient
    is computed step by step. States on padding are left as they come out: nothing attends to them.
    """
    dtype = state_dtype(words)  # not every CPU has LSTMs in bfloat16
    weights = [w.to(dtype) for w in layer.parameters()]  # ih, hh, then both backwards
    with torch.autocast(words.device.type, enabled=False):
        ways = (_kernel_ways if KERNEL.do(weights[0]) else _plain_ways)(
            weights, words.to(dtype), mask
        )
    states, hidden, cell = ways
    return states.to(words.dtype), hidden.to(words.dtype), cell.to(words.dtype)


def _kernel_ways(
    weights: list[Tensor], words: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Steps on padding leave the state as it is."""
    forwards, cell = lstm(words, mask, weights[0], weights[1], backwards=False)
    backwards, first = lstm(words, mask, weights[2], weights[3], backwards=True)
    last = torch.cat([forwards[:, -1], backwards[:, 0]], dim=-1)
    return torch.cat([forwards, backwards], dim=-1), last, torch.cat([cell, first], dim=-1)


def _plain_ways(
    weights: list[Tensor], words: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """One more input marks the padding and holds the cell: forget gate 1, input gate 0.

    So the backward direction comes through the padding with a zero state, and the forward one keeps
    its last cell.
    """
    size = weights[1].shape[1]
    hold = words.new_zeros(4 * size, 1)
    hold[:size], hold[size : 2 * size] = -_ALWAYS, _ALWAYS
    held = [w if n % 2 else torch.cat([w, hold], dim=1) for n, w in enumerate(weights)]
    marked = torch.cat([words, (~mask).unsqueeze(-1).to(words.dtype)], dim=-1)
    zero = marked.new_zeros(2, words.shape[0], size)
    states, hidden, cell = torch.lstm(
        marked, (zero, zero), held, False, 1, 0.0, torch.is_grad_enabled(), True, True
    )
    last = (mask.sum(1) - 1).view(-1, 1, 1).expand(-1, 1, size)
    forwards = states[..., :size].gather(1, last).squeeze(1)
    return states, torch.cat([forwards, hidden[1]], dim=-1), torch.cat(tuple(cell), dim=-1)


def check_source(input_ids: Tensor, mask: Tensor, vocabulary: int) -> None:
    """Refuse a source that would be read wrongly."""
    if input_ids.dim() != 2 or mask.shape != input_ids.shape:
        raise ValueError(
            f"input_ids {tuple(input_ids.shape)} and attention_mask {tuple(mask.shape)} do not "
            "fit: give both as (B, S)"
        )
    if not (mask[:, :1] == 1).all() or (mask[:, 1:] > mask[:, :-1]).any():
        raise ValueError(
            "attention_mask must have ones, then zeros, in every row: pad on the right, drop "
            "empty sources"
        )
    if input_ids.numel() and input_ids.max() >= vocabulary:
        raise ValueError(
            f"input_ids has the id {int(input_ids.max())}, but the vocabulary ends at "
            f"{vocabulary - 1}: ids of copied words go into extended_ids"
        )
