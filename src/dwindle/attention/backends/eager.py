"""Softmax, then the rule, then values, as written: the slow twin of every other backend.

Holds several (B, H, T, S) tensors. Any device, any rule, any option; gradients by autograd.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from dwindle.attention.backends.call import Call
from dwindle.attention.coverage import Coverage


def attention(call: Call) -> tuple[Tensor, Coverage]:
    """The context (B, H, T, Dv) and the coverage after."""
    groups = call.query.shape[1] // max(call.key.shape[1], 1)
    key, value = (x.repeat_interleave(groups, 1) if groups > 1 else x for x in (call.key, call.value))
    scores = ((call.query * call.scale) @ key.transpose(-2, -1)).to(call.dtype)
    if call.softcap:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    probabilities = softmax(scores, call.mask, call.bias)
    weights, coverage = call.rule(probabilities, call.coverage, protected=call.kept)
    if call.dropout:
        weights = F.dropout(weights, call.dropout)
    return weights.to(value.dtype) @ value, coverage


def softmax(scores: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """Rows of attention (..., T, S); a row with every score at -inf is zero, and so is its gradient."""
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    if mask is None and bias is None:
        return scores.softmax(-1)
    nothing = (scores == -math.inf).all(-1, keepdim=True)
    return scores.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)
