"""Softmax, then the rule, then values, as written: the slow twin of every other backend.

Holds several (B, H, T, S) tensors. Any device, any rule, any option; gradients by autograd, of any
order and kind.
"""

from typing import Any

import torch
from torch import Tensor

from dwindle.core.backends.call import Call
from dwindle.core.notation import row_rule
from dwindle.core.softmax import attention_scores, softmax_rows, weighted_values


def objection(call: Call) -> str | None:
    """It can do everything."""
    return None


def pays(call: Call) -> bool:
    """True: it is asked last."""
    return True


def attention(call: Call) -> tuple[Tensor, Any]:
    """The context (B, H, T, Dv) and the coverage after."""
    softcap = call.softcap or None
    scores = attention_scores(
        call.query, call.key, mask=call.mask, bias=call.bias, scale=call.scale, softcap=softcap
    )
    if call.felt is None:
        _, weights, coverage = call.rule.attend(scores, call.coverage, protected=call.protected)
    else:
        weights, coverage = diminished(call, softmax_rows(scores))
    return weighted_values(weights, call.value, call.dropout), coverage


def diminished(call: Call, attention: Tensor) -> tuple[Tensor, Any]:
    """The weights (B, H, T, S) of rows of attention, by the rule where it is felt, and the coverage
    after."""
    rule, felt = row_rule(call.rule), call.felt
    if felt is None:
        return rule(attention, call.coverage, protected=call.protected)
    covered = felt.shape[-1]
    a, others = attention[..., :covered], attention[..., covered:]
    weights, after = rule(a.masked_fill(~felt, 0), call.coverage, protected=call.protected)
    return torch.cat([torch.where(felt, weights, a), others], dim=-1), after
