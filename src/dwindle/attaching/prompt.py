"""Decoder-only models: the document in the prompt is the source; only later tokens feel coverage.

A row of self-attention is over the prompt and over what was written. For a row after the last
source token, the columns of the source are diminished by the rule, with the coverage that such rows
have left there; all other columns keep their plain weight. Rows inside the prompt and rows of
padding are plain and leave nothing.

``source_span`` says where the source is; inside ``generate()`` it is the whole prompt unless one is
open. It goes down the model as an argument, so that a recomputed forward (gradient checkpointing)
sees its own. This file knows nothing of cross-attention and of how modules are found.

Shapes: B batch, H heads, T rows of this call, K keys, P positions up to the last source token.
"""

# CoveredLayer needs transformers, which is imported only when attaching
from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dwindle.attaching.find import Found, Path, self_attention
from dwindle.attaching.hooks import (
    FLEX,
    Arguments,
    Attached,
    Begin,
    Generate,
    Link,
    Scoring,
    SourceStrategy,
    given,
    parameters,
)
from dwindle.core.coverage import Coverage
from dwindle.core.functional import attention
from dwindle.core.notation import row_rule
from dwindle.core.rules import RowRule, Rule
from dwindle.core.softmax import softmax_rows, weighted_values

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from dwindle.attaching.cache import CoveredLayer

NAME = "dwindle-prompt"

_ARGUMENT = "dwindle_prompt"
_MARK_IT = (
    "mark the source: with dwindle.source_span(model, mask), where mask is True on the document's "
    "tokens"
)
# sinks and sparse choices: more than a softmax over the keys
_BEYOND_SOFTMAX = ("s_aux", "indices", "block_indices")
_PACKING = ("cu_seq_lens_q", "cu_seq_lens_k", "seq_idx")


class PromptSource(SourceStrategy):
    """The source is a document in the prompt of a decoder-only model."""

    name = "prompt"

    def find(self, model: PreTrainedModel, modules: list[str] | None) -> list[Found]:
        return self_attention(model, modules)

    def refuse(self, model: PreTrainedModel, rule: Rule) -> None:
        row_rule(rule)

    def attached(self, link: Link, found: Found) -> Attached:
        return PromptAttention.of(link, found)

    def watch(self, link: Link) -> None:
        link.before(link.model, HandDown(link, parameters(link.model)))

    def generate(self, link: Link) -> Generate:
        return GenerateFromPrompt(link)


@dataclass
class GenerateFromPrompt(Generate):
    """The ``generate`` of an attached model: without a span its whole prompt is the source."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        scopes = self.link.scopes
        given = [
            *args[:1],
            *(kwargs.get(name) for name in ("inputs", "input_ids", "inputs_embeds")),
        ]
        prompt = next((x for x in given if x is not None), None)
        if scopes.span is not None or prompt is None:
            return super().run(*args, **kwargs)
        mask = kwargs.get("attention_mask")
        if mask is None or mask.dim() != 2:
            mask = torch.ones(prompt.shape[:2], device=prompt.device)
        with scopes.opened("span", trimmed(mask.bool())):
            return super().run(*args, **kwargs)


@dataclass(frozen=True)
class Prompt:
    """Facts about one call that the hook on the model hands down to its modules."""

    span: Tensor | None
    """Bool (items, P), if one is open."""
    special: Tensor | None
    """Bool (B, T): special tokens among the tokens of this call, if the rule protects them."""


@dataclass
class HandDown(Begin):
    """A hook on the whole model that hands the span down, and refuses packed batches."""

    parameters: list[str]

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments:
        super().__call__(module, args, kwargs)
        named = given(self.parameters, args, kwargs)
        _refuse_packing(named)
        special = None
        if self.link.rule.protect == "special":
            ids = named.get("input_ids")
            if ids is None:
                raise ValueError(
                    "this rule protects the special tokens of the source: call the model with "
                    "input_ids"
                )
            special = self.link.special_among(ids)
        return args, {**kwargs, _ARGUMENT: Prompt(self.link.scopes.span, special)}


@dataclass
class PromptPass:
    """One forward pass of one attached module."""

    at: Attached
    rule: RowRule
    """The rule without its ``protect`` option, which is in ``protected`` as a mask."""
    layer: CoveredLayer | None
    """Keeper of the coverage between calls; None without a cache."""
    first: int | Tensor
    """The position of the first row."""
    dropped: int
    """Keys at the front that a sliding cache no longer has: key j is at position j + dropped."""
    source: Tensor
    """Bool (B, P): the source positions."""
    protected: Tensor | None
    """Bool (B, P): source positions that keep their plain weight."""

    def felt(self, feels: Tensor) -> Tensor:
        """Bool (B, 1, T', P): what the rule diminishes, for rows (B, T') that feel coverage."""
        return feels[:, None, :, None] & self.source[:, None, None, :]


@dataclass
class PromptAttention(Attached):
    """Self-attention that calls the registry: it gets a config of its own that names ``attend``."""

    path: ClassVar[Path] = "registry"
    rule: RowRule = field(init=False)
    """The model's rule without its protection. Made once: compiled graphs make no constants."""

    def enter(self) -> None:
        from dwindle.attaching import library

        self.rule = replace(row_rule(self.link.rule), protect=())
        self.original = library.call_instead(self.module, NAME, attend)
        self.link.before(self.module, self)

    def leave(self) -> None:
        self.module.config = self.original

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments:
        from dwindle.attaching.cache import cache_among, covered_itself
        from dwindle.attaching.library import dropped_keys

        prompt = kwargs.pop(_ARGUMENT, None)
        if prompt is None:
            raise ValueError(
                f"{self.name} was called by itself: call the {type(self.link.model).__name__}"
            )
        hidden = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
        batch, rows = hidden.shape[:2]
        cache = cache_among(args, kwargs)
        layer = None if cache is None else covered_itself(cache, module.layer_idx)  # type: ignore[arg-type]
        source = _source(prompt, layer, batch, rows).to(hidden.device)
        one = PromptPass(
            self,
            rule=self.rule,
            layer=layer,
            first=0 if layer is None else layer.seen,
            dropped=0 if layer is None else dropped_keys(layer, rows),
            source=source,
            protected=_protected(self.link.rule, source, prompt.special, layer),
        )
        return args, {**kwargs, "dwindle_pass": one}


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
    dwindle_pass: PromptPass | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """The attention function of an attached module: queries (B, H, T, D) -> (B, T, H, D)."""
    if dwindle_pass is None:
        raise ValueError(
            f"{type(module).__name__} was called without its hook: was its forward called directly?"
        )
    if any(others.get(name) is not None for name in _BEYOND_SOFTMAX):
        raise ValueError(
            f"{type(module).__name__} cannot have a rule: its weights are not a softmax over all "
            "its keys"
        )
    one = dwindle_pass
    positions = torch.arange(query.shape[2], device=query.device) + one.first
    mask = _mask(attention_mask, positions - one.dropped, key.shape[2])
    feels = _after_source(one.source, positions) & _not_padding(mask, positions - one.dropped)
    if not torch.compiler.is_compiling():
        start = _first_row(feels)
        _refuse_unseen(
            one,
            feels[:, start:],
            mask[..., start:, :],
            query.shape[2],
            others.get("sliding_window"),
        )
    work = PromptWork(one, query, key, value, Scoring(mask, position_bias, scaling, softcap), feels)
    if one.at.seen:
        context, weights = work.visible(dropout)
    else:
        context, weights = work.fused(dropout), None
    return context.transpose(1, 2).contiguous(), weights if one.at.returns_weights else None


@dataclass(frozen=True)
class PromptWork:
    """The arguments of one call of ``attend``."""

    one: PromptPass
    query: Tensor
    key: Tensor
    value: Tensor
    scoring: Scoring
    feels: Tensor
    """Bool (B, T): the rows that feel coverage and add to it."""

    def fused(self, dropout: float) -> Tensor:
        """The context (B, H, T, D), without holding weights in memory."""
        layer = self.one.layer
        before = None if layer is None else layer.coverage
        if (
            layer is not None
            and layer.overwritable
            and self.columns == slice(0, self.one.source.shape[1])
        ):
            context, _ = self._attention(before, dropout, inplace=True)
            layer.overwritten(self.query.shape[2])
            return context
        context, after = self._attention(before, dropout)
        if layer is not None:
            layer.advance(
                self._whole(before, after), self.query.shape[2], partial(self.replay, before)
            )
        return context

    def replay(self, before: Any, rows: int) -> Any:
        """The coverage after the first ``rows`` rows."""
        first = slice(rows)
        part = replace(
            self,
            query=self.query[:, :, first],
            scoring=self.scoring.rows(first),
            feels=self.feels[:, first],
        )
        return self._whole(before, part._attention(before, 0.0)[1])

    def visible(self, dropout: float) -> tuple[Tensor, Tensor]:
        """Context and weights (B, H, T, K), held in memory for a listener."""
        one = self.one
        attended = softmax_rows(self.scoring.scores(self.query, self.key))
        columns = self.columns
        felt = self.feels[:, None, :, None] & one.source[:, None, None, columns]
        given = attended[..., : felt.shape[-1]].masked_fill(~felt, 0)  # the rest adds no coverage
        before = None if one.layer is None else one.layer.coverage
        protected = None if one.protected is None else one.protected[:, None, columns]
        weights, after = one.rule(given, _part(before, columns), protected=protected)
        one.at.hear(*(F.pad(x, self._outside) for x in (given, weights)))
        if one.layer is not None:
            one.layer.advance(
                self._whole(before, after), self.query.shape[2], partial(self.replay, before)
            )
        mixed = torch.where(felt, weights, attended[..., : felt.shape[-1]])
        weights = torch.cat([mixed, attended[..., felt.shape[-1] :]], dim=-1)
        return weighted_values(weights, self.value, dropout), weights

    @property
    def columns(self) -> slice:
        """The positions up to the last source token that have a key in this call."""
        width = self.one.source.shape[1]
        start = min(self.one.dropped, width)
        return slice(start, min(width, start + self.key.shape[2]))

    @property
    def _outside(self) -> tuple[int, int]:
        """Number of positions before the span, and after it."""
        return self.columns.start, self.one.source.shape[1] - self.columns.stop

    def _attention(self, before: Any, dropout: float, inplace: bool = False) -> tuple[Tensor, Any]:
        one, columns = self.one, self.columns
        return attention(
            self.query,
            self.key,
            self.value,
            rule=one.rule,
            coverage=_part(before, columns),
            dropout=dropout,
            protected=None if one.protected is None else one.protected[:, columns],
            source=one.source[:, columns],
            rows=self.feels,
            inplace=inplace,
            backend=one.at.link.backend,
            **self.scoring.arguments,
        )

    def _whole(self, before: Any, after: Any) -> Any:
        """Coverage of all positions (B, H, P) from that of the columns that have a key: the others
        had no attention."""
        if self._outside == (0, 0):
            return after
        whole = Coverage(*(F.pad(x, self._outside) for x in after))
        if before is not None:
            for x, y in zip(whole, before, strict=True):
                x[..., : self.columns.start] = y[..., : self.columns.start]
        return whole


def _part(coverage: Any, columns: slice) -> Any:
    return None if coverage is None else Coverage(*(x[..., columns] for x in coverage))


def _mask(mask: Tensor | None, rows: Tensor, keys: int) -> Tensor:
    """One mask, broadcastable to (B, H, T, K), from any form the library hands over. ``rows``:
    (T,), the own keys."""
    if mask is not None and not isinstance(mask, Tensor):
        raise ValueError(FLEX)
    if mask is not None and mask.dim() == 4:
        return mask[..., :keys]
    causal = (torch.arange(keys, device=rows.device) <= rows[:, None])[None, None]
    # (B, K), as flash attention has it
    return causal if mask is None else causal & mask[:, None, None, -keys:].bool()


def _visible(mask: Tensor) -> Tensor:
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2


def _after_source(source: Tensor, positions: Tensor) -> Tensor:
    """Bool (B, T): rows after the last source token of their example."""
    counted = torch.arange(1, source.shape[1] + 1, device=source.device)
    last = F.pad(source * counted, (1, 0)).amax(1) - 1  # -1 for an example without source
    return positions[None, :] > last[:, None]


def _not_padding(mask: Tensor, rows: Tensor) -> Tensor:
    """Bool (B or 1, T): rows that see themselves, which padding does not."""
    first = mask[:, 0]  # of the heads
    return _visible(first.gather(-1, rows[None, :, None].expand(first.shape[0], -1, 1))).squeeze(-1)


def _first_row(feels: Tensor) -> int:
    """The first row that feels coverage in any example; T if none does."""
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
        raise ValueError(
            f"the mask of the source has {items} rows, but the batch has {batch}: give one row per "
            "text"
        )
    if layer is None and width > rows:
        raise ValueError(
            f"the mask marks position {width - 1} as source, but there are only {rows} tokens"
        )
    # the beams of an item lie together
    source = prompt.span.repeat_interleave(batch // items, dim=0)
    if layer is not None:
        layer.source = source
        if layer.coverage is not None and layer.coverage.total.shape[-1] != width:
            layer.coverage = None  # a static layer that was reset has zeros of its old source
    return source


def _protected(
    rule: Rule, source: Tensor, special: Tensor | None, layer: CoveredLayer | None
) -> Tensor | None:
    """Bool (B, P): source positions that keep their plain weight. Indices count source tokens."""
    if special is not None:
        width = source.shape[1]
        if layer is not None:
            known = special[:, :0] if layer.protected is None else layer.protected
            # A prompt may come in pieces: what is known of its tokens grows with them.
            layer.protected = (
                known if known.shape[1] == width else torch.cat([known, special], dim=1)[:, :width]
            )
            special = layer.protected
        return F.pad(special[:, :width], (0, max(width - special.shape[1], 0))).to(source.device)
    if not rule.protect:
        return None
    rank = source.cumsum(1) - 1
    count = source.sum(1, keepdim=True)
    listed = [rank == (i if i >= 0 else i + count) for i in rule.protect if isinstance(i, int)]
    return torch.stack(listed).any(0) & source


def trimmed(mask: Tensor) -> Tensor:
    """Up to the last source token of the batch: coverage has no use for more."""
    marked = mask.any(0).nonzero()
    return mask[:, : int(marked.max()) + 1 if len(marked) else 0]


def _refuse_unseen(
    one: PromptPass, feels: Tensor, mask: Tensor, rows: int, window: int | None
) -> None:
    """A row that feels coverage must see the whole source: else its attention says nothing."""
    unseen = one.felt(feels) & ~_columns(_visible(mask), one.dropped, one.source.shape[1])
    if not bool(unseen.any()):
        return
    first = int(unseen.any(0).any(0).any(0).int().argmax())
    if window is not None and int(one.first) + rows - first > window:
        raise ValueError(
            f"a sliding window of {window} tokens has dropped part of the source: attach only "
            "layers with full attention (layers=[...]), or keep prompt and output inside the window"
        )
    raise ValueError(
        "a token after the source cannot see all of it: leave padding out of the source's mask, "
        "pass attention_mask, and put one text in each row"
    )


def _refuse_packing(given: dict[str, Any]) -> None:
    """Several texts in one row: the coverage of one would be felt by the next."""
    packed = any(given.get(name) is not None for name in _PACKING)
    positions = given.get("position_ids")
    if (
        not packed
        and isinstance(positions, Tensor)
        and positions.dim() == 2
        and not torch.compiler.is_compiling()
    ):
        steps = positions.diff(dim=1)
        mask = given.get("attention_mask")
        if isinstance(mask, Tensor) and mask.dim() == 2:
            real = mask[:, -positions.shape[1] :].bool()
            steps = steps * (real[:, 1:] & real[:, :-1])  # padding has any position
        packed = bool(((steps > 0).cumsum(1).bool() & (steps < 0)).any())
    if packed:
        raise ValueError(
            "packed batches cannot have a rule in the prompt: put one text in each row, and pad"
        )
