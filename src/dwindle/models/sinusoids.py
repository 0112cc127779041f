"""Fixed position embeddings in three layouts, each exact to the code that trained with it.

All are tables of sines and cosines of growing wavelength; the originals differ in the order of the
columns and in the growth of the wavelengths. Marian's own layout is in `transformers`.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.pegasus.modeling_pegasus import PegasusSinusoidalPositionalEmbedding

from dwindle.models.library import restore_table


class _Table:
    """An embedding whose weight is ``create_weight()``."""

    weight: nn.Parameter

    def create_weight(self) -> Tensor:
        raise NotImplementedError

    def _init_weight(self) -> None:
        """The name by which releases before 5.0 ask for it."""
        self.weight = nn.Parameter(self.create_weight(), requires_grad=False)


class FairseqSinusoids(_Table, MarianSinusoidalPositionalEmbedding):
    """As fairseq: all sines, then all cosines; the first token stands at the padding's id + 1."""

    FIRST = 2
    """Row 0 of the table: fairseq's padding is always token 1."""

    def create_weight(self) -> Tensor:
        positions, width = self.weight.shape
        half = width // 2
        rates = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
        angles = (
            torch.arange(self.FIRST, self.FIRST + positions, dtype=torch.float).unsqueeze(1) * rates
        )
        table = torch.cat([angles.sin(), angles.cos()], 1)
        return torch.nn.functional.pad(table, (0, width % 2)).to(self.weight.dtype)


class PreSummSinusoids(_Table, PegasusSinusoidalPositionalEmbedding):
    """As PreSumm and OpenNMT: sines and cosines take turns, and the first token stands at 0."""

    def create_weight(self) -> Tensor:
        positions, width = self.weight.shape
        rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float) * -(math.log(10000) / width))
        angles = torch.arange(positions, dtype=torch.float).unsqueeze(1) * rates
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).to(self.weight.dtype)


def longer(old: Any, length: int) -> Any:
    """The same curves up to ``length`` positions."""
    new = type(old)(length, old.embedding_dim).to(old.weight)
    restore_table(new)
    return new
