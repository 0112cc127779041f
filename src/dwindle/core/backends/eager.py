"""Softmax, then the rule, then values, as written: the slow twin of every other backend.

Holds several (B, H, T, S) tensors. Any device, any rule, any option; gradients by autograd.
"""

import torch.nn.functional as F
from torch import Tensor

from dwindle.core.backends.call import Call
from dwindle.core.coverage import Coverage
from dwindle.core.softmax import attention_rows, grouped


def attention(call: Call) -> tuple[Tensor, Coverage]:
    """The context (B, H, T, Dv) and the coverage after."""
    softcap = call.softcap or None
    rows = attention_rows(call.query, call.key, mask=call.mask, bias=call.bias, scale=call.scale, softcap=softcap)
    weights, coverage = call.rule(rows, call.coverage, protected=call.kept)
    if call.dropout:
        weights = F.dropout(weights, call.dropout)
    return weights.to(call.value.dtype) @ grouped(call.value, call.query.shape[1]), coverage
