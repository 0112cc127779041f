"""The CPU kernel as ``torch.library`` operators: their schemas, and the shapes of what they return.

``op.cpp`` computes and differentiates them, once ``build.library`` has loaded it. A rule is its ``KernelNumbers``,
``renormalise``, ``share_heads``, and the nine terms of both polynomials: every shipped g is a Box-Cox function (s, p).
What the kernel can do is said in ``cpu/__init__.py``. P is the number of positions with coverage, C that of heads with
one of their own (1 with ``share_heads``).
"""

from typing import Any

import torch
from torch import Tensor

from dwindle.core.backends.call import block_rows
from dwindle.core.coverage import state_dtype

_ROWS, _TILE = 256, 2**21  # a tile of scores: at most so many target rows, and elements (rows x S)
_SHARED = 128, 2**24  # the same of heads that share a coverage and are held at once
_FEWEST = 16  # rows, however long the source
_OPTIONS = 6, 8  # where a rule has its options
_INPUTS = (
    "Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor? mask, "
    "Tensor? protected, Tensor? source, Tensor? rows, "
)
_SETTINGS = "Tensor? seed, float[] rule, float scale, float softcap, float dropout, "
_SIX = "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"

_dwindle: Any = torch.library.Library("dwindle", "FRAGMENT")  # type: ignore[no-untyped-call]
# The context (B, H, T, Dv), the coverage after (B, C, P) twice, and with `save` what the backward pass needs: the
# norms of the rows (B, H, T, 2 or 4; problem.h), and the coverage between blocks of rows (B, C, blocks - 1, P) twice.
_dwindle.define(
    f"attention({_INPUTS}Tensor? total, Tensor? peak, {_SETTINGS}SymInt blocks, bool save) -> {_SIX}",
    tags=torch.Tag.pt2_compliant_tag,
)
# The context, with the coverage (dense, (B, C, P)) moved on in place. No gradient.
_dwindle.define(
    f"attention_step({_INPUTS}Tensor(a!) total, Tensor(b!) peak, {_SETTINGS}SymInt blocks) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)
# Gradients of q, k, v, the bias, and the coverage before (the last three empty unless asked for). `context` is that of
# the forward pass, wanted where rows were renormalised.
_dwindle.define(
    f"attention_backward(Tensor grad, Tensor? grad_total, Tensor? grad_peak, {_INPUTS}Tensor? total, Tensor? peak, "
    "Tensor? seed, Tensor? context, Tensor norms, Tensor totals, Tensor peaks, float[] rule, float scale, "
    "float softcap, float dropout, "
    f"bool bias_too, bool coverage_too) -> {_SIX}",
    tags=torch.Tag.pt2_compliant_tag,
)
attention = torch.ops.dwindle.attention.default
step = torch.ops.dwindle.attention_step.default


def blocks(t: int, s: int, heads: int = 1) -> int:
    """How many blocks the target rows are cut into: large ones use each packed key often, but must fit the cache.

    ``heads``: how many share a coverage, and are held at once.
    """
    rows, elements = (_ROWS, _TILE) if heads == 1 else _SHARED
    most = max(_FEWEST, min(rows, elements // max(heads * s, 1)))
    return max(1, -(-t // block_rows(t, most)))


@torch.library.register_fake("dwindle::attention", lib=_dwindle)  # type: ignore[untyped-decorator]
def _(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> tuple[Tensor, ...]:
    b, h, t, _ = query.shape
    _, _, _, source, *_, rule, _, _, _, blocks, save = others
    renormalise, share_heads = rule[slice(*_OPTIONS)]
    c, p = 1 if share_heads else h, key.shape[2] if source is None else source.shape[1]
    norms = (b, h, t, 4 if renormalise and rule[0] else 2)
    shapes = [norms, (b, c, blocks - 1, p), (b, c, blocks - 1, p)] if save else [(0,)] * 3
    return _context(query, value), *(_state(query, *shape) for shape in [(b, c, p), (b, c, p), *shapes])


@torch.library.register_fake("dwindle::attention_step", lib=_dwindle)  # type: ignore[untyped-decorator]
def _(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> Tensor:
    return _context(query, value)


@torch.library.register_fake("dwindle::attention_backward", lib=_dwindle)  # type: ignore[untyped-decorator]
def _(
    grad: Tensor,
    grad_total: Tensor | None,
    grad_peak: Tensor | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    protected: Tensor | None,
    source: Tensor | None,
    *others: Any,
) -> tuple[Tensor, ...]:
    *_, totals, _, _, _, _, _, bias_too, coverage_too = others
    dense = [x.new_empty(x.shape) for x in (query, key, value)]
    dbias = _state(query, *bias.shape) if bias_too and bias is not None else _state(query, 0)
    state = (query.shape[0], totals.shape[1], totals.shape[3]) if coverage_too else (0,)
    return *dense, dbias, _state(query, *state), _state(query, *state)


def _context(query: Tensor, value: Tensor) -> Tensor:
    return query.new_empty(*query.shape[:3], value.shape[3])


def _state(query: Tensor, *shape: int) -> Tensor:
    return query.new_empty(shape, dtype=state_dtype(query))
