"""Plain attention, held in memory: the (B, H, T, S) rows that a rule diminishes.

What the simple path computes and what whoever looks at attention wants to see. It knows no rule.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from dwindle.core.coverage import state_dtype
from dwindle.core.transforms import transformed


def attention_scores(
    query: Tensor,
    key: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Tensor:
    """softcap(query key^T scale) + bias, before the softmax: (B, H, T, S), in float32 or better.

    The arguments are those of ``dwindle.attention``. Minus infinity where a bool mask forbids to
    look.
    """
    return _changed(_products(query, key, scale), mask, bias, softcap)


def attended(
    products: Tensor, *, mask: Tensor | None, bias: Tensor | None, softcap: float | None
) -> Tensor:
    """Rows of attention (B, H, T, S) from the products of queries and keys. A row that may attend
    to nothing is zero, and so is its gradient."""
    scores = _changed(products, mask, bias, softcap)
    return scores.softmax(-1) if mask is None and bias is None else softmax_rows(scores)


def softmax_rows(scores: Tensor) -> Tensor:
    """Softmax of scores (..., T, S), in float32 at least; zero for a row that may see nothing."""
    scores = scores.to(state_dtype(scores))
    if not scores.shape[-1]:
        return scores
    nothing = scores.amax(-1, keepdim=True) == -math.inf
    looked_at = scores.device.type != "cpu" or torch.compiler.is_compiling() or transformed(scores)
    if not looked_at and not nothing.any():
        return scores.softmax(-1)  # most calls; filling is slow
    return scores.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)


def _products(query: Tensor, key: Tensor, scale: float | None) -> Tensor:
    """In float32 at least: float16 scores overflow, and coverage would add up their rounding."""
    scale = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    dtype = state_dtype(query)
    return (query.to(dtype) * scale) @ grouped(key, query.shape[1]).mT.to(dtype)


def _changed(
    scores: Tensor, mask: Tensor | None, bias: Tensor | None, softcap: float | None
) -> Tensor:
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if bias is not None:
        scores = scores + bias
    if mask is not None and mask.dtype == torch.bool:
        mask = scores.new_zeros(mask.shape).masked_fill_(~mask, -math.inf)
    return scores if mask is None else scores + mask


def weighted_values(weights: Tensor, value: Tensor, dropout: float = 0.0) -> Tensor:
    """Weights (B, H, T, S), some dropped, times values (B, Hk, S, Dv), in the values' dtype."""
    used = F.dropout(weights, dropout) if dropout else weights
    return used.to(value.dtype) @ grouped(value, weights.shape[1])


def grouped(x: Tensor, heads: int) -> Tensor:
    """Keys or values (B, Hk, S, D) repeated to H heads: head h uses key head h // (H / Hk)."""
    return x if x.shape[1] in (0, heads) else x.repeat_interleave(heads // x.shape[1], dim=1)
