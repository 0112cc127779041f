"""Products with a matrix of very many rows, a vocabulary's: scores of all words.

Torch's usual library is slow at a few rows times a large matrix: at 64 rows of 256 and 50,000 words
oneDNN, which torch carries too, takes half the time. On AMD processors it also takes half the time
of hundreds of rows times a matrix of any size. It is reached by an operator that torch's compiler
uses, for float32 on a CPU and without gradients. Everywhere else this is the plain product. It
knows no model.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_LARGE = 2**20
"""Smallest number of elements of a matrix for which that pays, however few the rows."""
_MUCH = 2**25
"""Smallest number of multiplications for which it pays, however small the matrix."""


class Wide(nn.Linear):
    """A linear layer with very many outputs, or many rows to go through it."""

    def forward(self, input: Tensor) -> Tensor:
        return product(input, self.weight, self.bias)


@contextmanager
def widened(model: "PreTrainedModel", every: bool = False) -> Iterator[None]:
    """Inside the block, the layer that scores a library model's words is a ``Wide`` one; with
    ``every``, so are all its linear layers."""
    layers = model.modules() if every else [model.get_output_embeddings()]
    # a kind of its own may compute something else
    plain = [layer for layer in layers if type(layer) is nn.Linear]
    for layer in plain:
        layer.__class__ = Wide
    try:
        yield
    finally:
        for layer in plain:
            layer.__class__ = nn.Linear


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(..., V): x (..., H) times the rows of weight (V, H), plus bias (V,)."""
    if not _by_onednn(x, weight):
        return F.linear(x, weight, bias)
    scores: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return scores


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    """True if oneDNN can take it, and is faster."""
    large = weight.numel() >= _LARGE or x.numel() * len(weight) >= _MUCH
    if not large or x.numel() == 0 or torch.compiler.is_compiling():
        return False
    learns = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    plain = all(y.device.type == "cpu" and y.dtype == torch.float32 for y in (x, weight))
    mixed = torch.is_autocast_enabled("cpu")
    there = hasattr(torch.ops.mkldnn, "_linear_pointwise")  # not in a torch without oneDNN
    return (
        plain
        and there
        and not learns
        and not mixed
        and type(x) is Tensor
        and type(weight) in (Tensor, nn.Parameter)
    )
