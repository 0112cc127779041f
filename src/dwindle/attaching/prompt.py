"""Decoder-only models: the document inside the prompt is the source, and only tokens after it feel coverage.

A row of self-attention is over the prompt and over what was written. For a row after the last source token, the
columns of the source are diminished by the rule, with the coverage that such rows have left there; all other columns
keep their plain weight. Rows inside the prompt and rows of padding are plain and leave nothing.

``source_span`` says where the source is; inside ``generate()`` it is the whole prompt unless one is open. The span
goes down the model as an argument, so that a recomputed forward (gradient checkpointing) sees its own. This file knows
nothing of cross-attention and of how modules are found.

Shapes: B batch, H heads, T rows of this call, K keys, P positions up to the last source token.
"""

from __future__ import annotations  # CoveredLayer needs transformers, which is imported only when attaching

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dwindle.attaching.interface import FLEX, Hook, Sink
from dwindle.core.coverage import Coverage
from dwindle.core.notation import row_rule
from dwindle.core.rules import RowRule, Rule
from dwindle.core.softmax import attention_rows, grouped

if TYPE_CHECKING:
    from dwindle.attaching.cache import CoveredLayer
    from dwindle.attaching.handle import Attached, Handle

NAME = "dwindle-prompt"

_ARGUMENT = "dwindle_prompt"
_MARK_IT = "mark the source: with dwindle.source_span(model, mask), where mask is True on the document's tokens"
_BEYOND_SOFTMAX = ("s_aux", "indices", "block_indices")  # sinks and sparse choices: more than a softmax over the keys
_PACKING = ("cu_seq_lens_q", "cu_seq_lens_k", "seq_idx")


@contextmanager
def source_span(model: nn.Module, mask: Tensor) -> Iterator[None]:
    """Inside it, the source is where ``mask`` says.

    Args:
        model: with a rule attached by ``attach(..., source="prompt")``, also inside a wrapper (PEFT, DDP).
        mask: bool (B, P), True on the document's tokens: over the prompt of a ``generate()``, or over the whole
            sequence in training. Positions beyond its end are no source. An example without any stays plain.
    """
    handle: Handle | None = next((m.__dict__["_dwindle"] for m in model.modules() if "_dwindle" in m.__dict__), None)
    if handle is None or handle.source != "prompt":
        raise ValueError("no source can be marked here: attach a rule with source='prompt' first")
    if mask.dim() != 2:
        raise ValueError(f"the mask of a source must be (batch, prompt), not {tuple(mask.shape)}")
    context = handle.context
    before, context.span = context.span, _trimmed(mask.bool())
    try:
        yield
    finally:
        context.span = before


@dataclass
class Generate:
    """The ``generate`` of an attached model: without a span its whole prompt is the source."""

    handle: Handle

    def __call__(self, inputs: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        model = self.handle.model
        generate = partial(type(model).generate, model, inputs, *args, **kwargs)
        given = [inputs, kwargs.get("input_ids"), kwargs.get("inputs_embeds")]
        prompt = next((x for x in given if x is not None), None)
        if self.handle.context.span is not None or prompt is None:
            return generate()
        mask = kwargs.get("attention_mask")
        if mask is None or mask.dim() != 2:
            mask = torch.ones(prompt.shape[:2], device=prompt.device)
        with source_span(model, mask):
            return generate()


@dataclass(frozen=True)
class Prompt:
    """What the hook on the model hands down to its modules."""

    span: Tensor | None
    """Bool (items, P), if one is open."""
    special: Tensor | None
    """Bool (B, T): special tokens among the tokens of this call, if the rule protects them."""


@dataclass
class HandDown(Hook):
    """On the whole model: the span goes down as an argument. Packed batches end here."""

    parameters: list[str]
    special: list[int] | None
    """The ids of special tokens, if the rule protects them."""

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = dict(zip(self.parameters, args, strict=False)) | kwargs
        _refuse_packing(given)
        special = None
        if self.special is not None:
            ids = given.get("input_ids")
            if ids is None:
                raise ValueError("this rule protects the special tokens of the source: call the model with input_ids")
            special = torch.isin(ids, torch.tensor(self.special, device=ids.device))
        return args, {**kwargs, _ARGUMENT: Prompt(self.handle.context.span, special)}


@dataclass
class HandOver(Hook):
    """On an attached module: hand this call its rule, its cache layer, its source."""

    one: Attached

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        from transformers.cache_utils import Cache

        from dwindle.attaching.cache import covered_itself

        prompt = kwargs.pop(_ARGUMENT, None)
        if prompt is None:
            raise ValueError(f"{self.one.name} was reached past the {type(self.handle.model).__name__}: call that one")
        hidden = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
        batch, rows = hidden.shape[:2]
        cache = next((x for x in (*args, *kwargs.values()) if isinstance(x, Cache)), None)
        layer = None if cache is None else covered_itself(cache, module.layer_idx)  # type: ignore[arg-type]
        source = _source(prompt, layer, batch, rows)
        call = Call(
            rule=replace(row_rule(self.handle.rule), protect=()),
            layer=layer,
            first=0 if layer is None else layer.seen,
            dropped=0 if layer is None else int(layer.get_mask_sizes(rows)[1]),  # type: ignore[attr-defined]
            source=source.to(hidden.device),
            protected=_protected(self.handle.rule, source.to(hidden.device), prompt.special, layer),
            sink=self.one.sink,
            weights_wanted=self.one.original._attn_implementation == "eager",
        )
        return args, {**kwargs, "dwindle_call": call}


@dataclass
class Call:
    """One forward pass of one attached module."""

    rule: RowRule
    """Without its own protection: that is in ``protected``."""
    layer: CoveredLayer | None
    """Where the coverage is kept between calls; None without a cache."""
    first: int | Tensor
    """The position of the first row."""
    dropped: int
    """Keys at the front that a sliding cache no longer has: key j is at position j + dropped."""
    source: Tensor
    """Bool (B, P)."""
    protected: Tensor | None
    """Bool (B, P): source positions that keep their plain weight."""
    sink: Sink | None
    """Receives the attention to the source, the diminished weights and the coverage, while somebody records."""
    weights_wanted: bool

    def felt(self, feels: Tensor) -> Tensor:
        """Bool (B, 1, T', P): what the rule diminishes, for rows that feel coverage or not (B, T')."""
        return feels[:, None, :, None] & self.source[:, None, None, :]


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    dwindle_call: Call | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """The attention function of an attached module. (B, H, T, D) queries -> (B, T, H, D), as the library wants."""
    if dwindle_call is None:
        raise ValueError(f"{type(module).__name__} was called without its hook: was its forward called directly?")
    if any(others.get(name) is not None for name in _BEYOND_SOFTMAX):
        raise ValueError(f"{type(module).__name__} cannot have a rule: its weights are no softmax over all its keys")
    call = dwindle_call
    rows, keys = query.shape[2], key.shape[2]
    positions = torch.arange(rows, device=query.device) + call.first
    mask = _mask(attention_mask, positions - call.dropped, keys)
    feels = _after_source(call.source, positions) & _not_padding(mask, positions - call.dropped)

    start = 0 if call.sink is not None or call.weights_wanted else _first_row(feels)

    def settings(rows: slice) -> dict[str, Any]:
        bias = None if position_bias is None else position_bias[..., rows, :]
        return {"mask": mask[..., rows, :], "bias": bias, "scale": scaling, "softcap": softcap}

    attended = attention_rows(query[:, :, start:], key, **settings(slice(start, None)))
    if not torch.compiler.is_compiling():
        _refuse_unseen(call, feels[:, start:], mask[..., start:, :], rows, others.get("sliding_window"))
    weights = _diminish(call, attended, feels[:, start:], rows)
    used = F.dropout(weights, dropout) if dropout else weights
    context = used.to(value.dtype) @ grouped(value, query.shape[1])
    if start:
        # The rows before the source ends, which are all of a prefill, need no weights in memory.
        before = _plain(query[:, :, :start], key, value, dropout, settings(slice(start)))
        context = torch.cat([before, context], dim=2)
    return context.transpose(1, 2).contiguous(), weights if call.weights_wanted else None


def _diminish(call: Call, attended: Tensor, feels: Tensor, rows: int) -> Tensor:
    """The (B, H, T', K) weights of the last T' of ``rows`` rows: diminished on the source where ``feels`` (B, T')."""
    keys, width = attended.shape[-1], call.source.shape[-1]
    felt = call.felt(feels)
    a = _columns(attended, call.dropped, width)
    given = a.masked_fill(~felt, 0)  # what is no source or feels nothing adds nothing
    before = call.layer.coverage if call.layer is not None else None
    protected = None if call.protected is None else call.protected[:, None, :]
    weights, after = call.rule(given, before, protected=protected)
    if call.sink is not None:
        call.sink(given, weights, after)
    if call.layer is not None:
        replay = partial(_replay, call.rule, given, before, rows - given.shape[-2])
        call.layer.advance(after, rows, replay)

    both = min(max(width - call.dropped, 0), keys)  # keys that lie before the end of the source
    mixed = torch.where(felt, weights, a)[..., call.dropped : call.dropped + both]
    return torch.cat([mixed, attended[..., both:]], dim=-1)


def _replay(rule: RowRule, given: Tensor, before: Coverage | None, plain: int, rows: int) -> Coverage:
    """The coverage after the first ``rows`` rows of a call whose first ``plain`` rows felt nothing."""
    return rule(given[..., : max(rows - plain, 0), :], before)[1]


def _plain(query: Tensor, key: Tensor, value: Tensor, dropout: float, settings: dict[str, Any]) -> Tensor:
    """Attention without a rule, (B, H, T, D)."""
    key, value = grouped(key, query.shape[1]), grouped(value, query.shape[1])
    if settings["softcap"] is None and settings["bias"] is None:
        mask, scale = settings["mask"], settings["scale"]
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, scale=scale)
    weights = attention_rows(query, key, **settings)
    return (F.dropout(weights, dropout) if dropout else weights).to(value.dtype) @ value


def _mask(mask: Tensor | None, rows: Tensor, keys: int) -> Tensor:
    """One mask, broadcastable to (B, H, T, K), from any form the library hands over. ``rows``: (T,), the own keys."""
    if mask is not None and not isinstance(mask, Tensor):
        raise ValueError(FLEX)
    if mask is not None and mask.dim() == 4:
        return mask[..., :keys]
    causal = (torch.arange(keys, device=rows.device) <= rows[:, None])[None, None]
    return causal if mask is None else causal & mask[:, None, None, -keys:].bool()  # (B, K), as flash attention has it


def _visible(mask: Tensor) -> Tensor:
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2


def _after_source(source: Tensor, positions: Tensor) -> Tensor:
    """Bool (B, T): rows after the last source token of their example."""
    counted = torch.arange(1, source.shape[1] + 1, device=source.device)
    last = F.pad(source * counted, (1, 0)).amax(1) - 1  # -1 for an example without source
    return positions[None, :] > last[:, None]


def _not_padding(mask: Tensor, rows: Tensor) -> Tensor:
    """Bool (B or 1, T): rows that see themselves, which padding does not."""
    visible = _visible(mask)[:, 0]
    return visible.gather(-1, rows[None, :, None].expand(visible.shape[0], -1, 1)).squeeze(-1)


def _first_row(feels: Tensor) -> int:
    """The first row that feels coverage in any example; T if none does."""
    if torch.compiler.is_compiling():
        return 0
    return int(F.pad(feels.any(0), (0, 1), value=True).int().argmax())


def _columns(x: Tensor, dropped: int, width: int) -> Tensor:
    """(..., K) by key -> (..., P) by position: empty where there is no key."""
    return F.pad(x, (dropped, max(width - dropped - x.shape[-1], 0)))[..., :width]


def _source(prompt: Prompt, layer: CoveredLayer | None, batch: int, rows: int) -> Tensor:
    """Bool (B, P). A cache keeps the source it began with."""
    if layer is not None and layer.source is not None:
        return layer.source
    if prompt.span is None:
        raise ValueError(_MARK_IT)
    items, width = prompt.span.shape
    if batch % items:
        raise ValueError(f"the mask of the source has {items} rows, but the batch has {batch}: give one row a text")
    if layer is None and width > rows:
        raise ValueError(f"the mask marks position {width - 1} as source, but there are only {rows} tokens")
    source = prompt.span.repeat_interleave(batch // items, dim=0)  # the beams of an item lie together
    if layer is not None:
        layer.source = source
        if layer.coverage is not None and layer.coverage.total.shape[-1] != width:
            layer.coverage = None  # a static layer that was reset has zeros of its old source
    return source


def _protected(rule: Rule, source: Tensor, special: Tensor | None, layer: CoveredLayer | None) -> Tensor | None:
    """Bool (B, P): the source positions that keep their plain weight. Indices count the tokens of the source."""
    if special is not None:
        width = source.shape[1]
        if layer is not None:
            known = special[:, :0] if layer.protected is None else layer.protected
            # A prompt may come in pieces: what is known of its tokens grows with them.
            layer.protected = known if known.shape[1] == width else torch.cat([known, special], dim=1)[:, :width]
            special = layer.protected
        return F.pad(special[:, :width], (0, max(width - special.shape[1], 0))).to(source.device)
    if not rule.protect:
        return None
    rank = source.cumsum(1) - 1
    count = source.sum(1, keepdim=True)
    listed = [rank == (i if i >= 0 else i + count) for i in rule.protect if isinstance(i, int)]
    return torch.stack(listed).any(0) & source


def _trimmed(mask: Tensor) -> Tensor:
    """Up to the last source token of the batch: coverage has no use for more."""
    marked = mask.any(0).nonzero()
    return mask[:, : int(marked.max()) + 1 if len(marked) else 0]


def _refuse_unseen(call: Call, feels: Tensor, mask: Tensor, rows: int, window: int | None) -> None:
    """A row that feels coverage must see the whole source: else what it leaves there says nothing."""
    unseen = call.felt(feels) & ~_columns(_visible(mask), call.dropped, call.source.shape[1])
    if not bool(unseen.any()):
        return
    first = int(unseen.any(0).any(0).any(0).int().argmax())
    if window is not None and int(call.first) + rows - first > window:
        raise ValueError(
            f"a sliding window of {window} tokens has dropped part of the source: attach only layers with full "
            "attention (layers=[...]), or keep prompt and output inside the window"
        )
    raise ValueError(
        "a token after the source cannot see all of it: leave padding out of the source's mask, pass attention_mask, "
        "and put one text in each row"
    )


def _refuse_packing(given: dict[str, Any]) -> None:
    """Several texts in one row: the coverage of one would be felt by the next."""
    packed = any(given.get(name) is not None for name in _PACKING)
    positions = given.get("position_ids")
    if not packed and isinstance(positions, Tensor) and positions.dim() == 2 and not torch.compiler.is_compiling():
        steps = positions.diff(dim=1)
        mask = given.get("attention_mask")
        if isinstance(mask, Tensor) and mask.dim() == 2:
            real = mask[:, -positions.shape[1] :].bool()
            steps = steps * (real[:, 1:] & real[:, :-1])  # padding has any position
        packed = bool(((steps > 0).cumsum(1).bool() & (steps < 0)).any())
    if packed:
        raise ValueError("packed batches cannot have a rule in the prompt: put one text in each row, and pad")
