"""The encoder: a bidirectional LSTM over the source, reduced to the decoder's first state.

It also computes what the attention compares with (W_h h_i), once for all decoding steps.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers.utils import ModelOutput

from dwindle.models.pointer_generator.config import PointerGeneratorConfig


@dataclass
class Encoded(ModelOutput):
    """A source. Every field has B first, so that ``generate()`` fans it out into beams."""

    last_hidden_state: Tensor
    """(B, S, 2H): h_i, forwards and backwards."""
    keys: Tensor = None  # type: ignore[assignment]  # the library's outputs require a default
    """(B, S, 2H): W_h h_i."""
    hidden: Tensor = None  # type: ignore[assignment]
    """(B, H): the decoder's first state."""
    cell: Tensor = None  # type: ignore[assignment]
    """(B, H)."""


class Encoder(nn.Module):
    """input_ids (B, S) -> ``Encoded``. Owns the embedding that the decoder shares."""

    main_input_name = "input_ids"

    def __init__(self, config: PointerGeneratorConfig) -> None:
        super().__init__()
        hidden, words = config.hidden_size, config.embedding_size
        self.embedding = nn.Embedding(config.vocab_size, words)
        # See's cell has one bias, torch's has two: here the last column of the input weights, for an input that is 1.
        self.lstm = nn.LSTM(words + 1, hidden, bias=False, batch_first=True, bidirectional=True)
        self.reduce_hidden = nn.Linear(2 * hidden, hidden)
        self.reduce_cell = nn.Linear(2 * hidden, hidden)
        self.keys = nn.Linear(2 * hidden, 2 * hidden, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> Encoded:
        """``attention_mask`` (B, S): 1 for words, then 0 for padding; None where there is no padding."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        check_source(input_ids, mask, self.embedding.num_embeddings)
        words = F.pad(self.embedding(input_ids), (0, 1), value=1.0)
        packed = pack_padded_sequence(words, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        states, (hidden, cell) = self.lstm(packed)
        memory, _lengths = pad_packed_sequence(states, batch_first=True, total_length=input_ids.shape[1])
        return Encoded(
            last_hidden_state=memory,
            keys=self.keys(memory),
            hidden=self.reduce_hidden(_both(hidden)).relu(),
            cell=self.reduce_cell(_both(cell)).relu(),
        )


def _both(directions: Tensor) -> Tensor:
    """(2, B, H) -> (B, 2H): forwards, then backwards."""
    return torch.cat(tuple(directions), dim=-1)


def check_source(input_ids: Tensor, mask: Tensor, vocabulary: int) -> None:
    """Refuse a source that would be read wrongly."""
    if input_ids.dim() != 2 or mask.shape != input_ids.shape:
        raise ValueError(
            f"input_ids {tuple(input_ids.shape)} and attention_mask {tuple(mask.shape)} do not fit: give both as (B, S)"
        )
    if not (mask[:, :1] == 1).all() or (mask[:, 1:] > mask[:, :-1]).any():
        raise ValueError(
            "attention_mask must have ones, then zeros, in every row: pad on the right, drop empty sources"
        )
    if input_ids.numel() and input_ids.max() >= vocabulary:
        raise ValueError(
            f"input_ids has the id {int(input_ids.max())}, but the vocabulary ends at {vocabulary - 1}: "
            "ids of copied words go into extended_ids"
        )
