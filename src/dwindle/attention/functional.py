"""``attention``: scaled dot-product attention whose weights follow a rule.

The one call for training and decoding, in the style of ``F.scaled_dot_product_attention``. It knows rules
and tensors; nothing of models, caches or padding conventions other than the mask it is given.
"""

import torch.nn.functional as F
from torch import Tensor

from dwindle.attention.coverage import Coverage
from dwindle.attention.notation import rule as parse
from dwindle.attention.rules import Rule
from dwindle.attention.softmax import attention_rows, grouped


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    rule: Rule | str,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    coverage: Coverage | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    protected: Tensor | None = None,
    softcap: float | None = None,
) -> tuple[Tensor, Coverage]:
    """softmax(query key^T scale + bias), diminished by ``rule``, times value.

    Args:
        query: (B, H, T, D), the rows of T in decoding order.
        key: (B, G, S, D), where G divides H (grouped-query attention) or is H.
        value: (B, G, S, Dv).
        rule: a rule or its notation.
        mask: broadcastable to (B, H, T, S); bool (True: may be attended to) or float (added to the scores).
        bias: broadcastable to (B, H, T, S), added to the scores (T5's positions).
        coverage: what earlier rows left, each (B, H, S); None at the start.
        scale: 1 / sqrt(D) unless given.
        dropout: probability of dropping a diminished weight. Coverage counts the clean attention.
        protected: bool (B, S) or broadcastable to (B, H, S): positions that keep their plain weight.

        softcap: limit the scores to (-softcap, softcap) by a tanh, before bias and mask.

    Returns:
        The context (B, H, T, Dv) in the dtype of ``query``, and the coverage after these rows. A row that
        may attend to nothing gives zeros and adds no coverage.
    """
    rule = parse(rule)
    _check(query, key, value, dropout)
    if protected is not None and protected.dim() == 2:
        protected = protected[:, None, :]  # (B, S) -> (B, 1, S): the same for all heads

    attended = attention_rows(query, key, mask=mask, bias=bias, scale=scale, softcap=softcap)
    weights, coverage = rule(attended, coverage, protected=protected)
    if dropout:
        weights = F.dropout(weights, dropout)
    return weights.to(value.dtype) @ grouped(value, query.shape[1]), coverage


def _check(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 4:
            raise ValueError(f"{name} must be (B, H, length, D), not {tuple(x.shape)}")
        if x.dtype != query.dtype:
            raise ValueError(f"{name} is {x.dtype} but query is {query.dtype}: give all three one dtype")
    batch, heads, _, size = query.shape
    groups = key.shape[1]
    fits = key.shape == (batch, groups, key.shape[2], size) and value.shape[:3] == key.shape[:3]
    if not fits or groups == 0 or heads % groups:
        raise ValueError(
            f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} do not fit: "
            "they must be (B, H, T, D), (B, G, S, D) and (B, G, S, Dv), with G a divisor of H"
        )
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be in [0, 1), not {dropout}")
