"""Cross-attention: a rule in modules that call the library's registry of attention functions.

``attend`` is registered as an attention function. The hook on each module hands it a ``CrossPass``:
the cache layer that has the coverage, and which rows and positions are special in this call. What
the modules cannot see comes from hooks further out, through the scope of the thread; the special
tokens of a source also lie on the storage of the encoder's states, where a recomputed layer and a
decoder called by itself find them. States are known again by their numbers, so that special tokens
follow the sources they belong to, in any order. Nothing here finds modules or attaches.

Shapes: B batch, H heads, T rows of this call, S source positions.
"""

# CoveredLayer needs transformers, which is imported only when attaching
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dwindle.attaching.find import Path, self_attention_beside
from dwindle.attaching.hooks import FLEX, Arguments, Attached, Hook, Scoring, given, parameters
from dwindle.core.functional import attention
from dwindle.core.rules import Rule
from dwindle.core.softmax import weighted_values
from dwindle.core.transforms import check_in_graph

if TYPE_CHECKING:
    from dwindle.attaching.cache import CoveredLayer

NAME = "dwindle"

ALONG = "dwindle_special"
"""Under this name the special tokens of a source go along with the states of its encoder."""
KNOWN_BY = "dwindle_states"
"""Under this name, a copy of a few of these states goes along too."""
_FEW = 8  # numbers of each position: two sources that agree in all of them are the same
_STATES = ("key_value_states", "encoder_hidden_states", "cross_attention_states")


UNKNOWN = (
    "this rule protects the special tokens of the source: call the model with input_ids, "
    "or with encoder_outputs of its own encoder (in any order, but with the numbers that it gave)"
)


@dataclass
class CrossPass:
    """One forward pass of one attached module."""

    at: Attached
    batch: int
    layer: CoveredLayer | None
    """Keeper of the coverage between calls; None without a cache."""
    rows: Tensor | None
    """Bool (B, T): False for rows of padding. They attend to nothing and add no coverage."""
    special: Tensor | None
    """Bool (items, source tokens): the special tokens of the source, if the rule protects them."""

    @property
    def rule(self) -> Rule:
        return self.at.link.rule

    @property
    def coverage(self) -> Any:
        return self.layer.coverage if self.layer is not None else None

    def protected(self, positions: int) -> Tensor | None:
        """Bool (B, S): the source positions that keep their plain weight."""
        if self.special is None:
            return None
        if self.layer is not None and self.layer.protected is not None:
            return self.layer.protected
        # Beams of an item lie together; encoders that pad their input give more positions than
        # there are tokens.
        mask = self.special.repeat_interleave(self.batch // self.special.shape[0], dim=0)
        mask = F.pad(mask, (0, positions - mask.shape[1]), value=False)
        if self.layer is not None:
            self.layer.protected = mask
        return mask

    def finish(self, after: Any, rows: int, replay: Callable[[int], Any]) -> None:
        if self.layer is not None:
            self.layer.advance(after, rows, replay)


@dataclass
class CrossAttention(Attached):
    """A module that calls the registry: it gets a config of its own that names ``attend``."""

    path: ClassVar[Path] = "registry"
    parameters: list[str] = field(default_factory=list)

    def enter(self) -> None:
        from dwindle.attaching import library

        self.original = library.call_instead(self.module, NAME, attend)
        self.hook()

    def leave(self) -> None:
        self.module.config = self.original

    def hook(self) -> None:
        """See the calls of the module, and those of the self-attention beside it."""
        self.parameters = parameters(self.module)
        self.link.before(self.module, self)
        if (beside := self_attention_beside(self.link.model, self.name)) is not None:
            self.link.before(beside, SeeMask(self.link, self.name, parameters(beside)))

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Arguments:
        from dwindle.attaching.cache import cache_among, covered

        if getattr(module, "_is_replica", False):
            raise ValueError(
                "nn.DataParallel cannot run a rule in its threads: start one process per device "
                "(torchrun)"
            )
        hidden = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
        batch, rows = hidden.shape[:2]
        cache = cache_among(args, kwargs)
        layer = None if cache is None else covered(cache, module.layer_idx, rows)  # type: ignore[arg-type]
        mask = self.link.here.masks.pop(self.name, None)
        real = None if mask is None else _real_rows(mask, rows, layer)
        one = CrossPass(self, batch, layer, real, self._special(batch, layer, args, kwargs))
        return args, {**kwargs, "dwindle_pass": one}

    def _special(
        self, batch: int, layer: CoveredLayer | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor | None:
        """Bool (items, source tokens), if the rule protects special tokens."""
        if self.link.rule.protect != "special":
            return None
        if layer is not None and layer.protected is not None:
            return layer.protected
        named = given(self.parameters, args, kwargs)
        states = next((named[name] for name in _STATES if named.get(name) is not None), None)
        special = self.link.here.special
        if special is None:
            special = self._along()
        if special is None:
            special = marked(states)
        elif torch.is_grad_enabled():
            # for gradient checkpointing, which runs this again outside of the model's call
            mark(states, special)
        if special is not None:
            return special
        model = self.link.model
        if model.main_input_name == "input_ids":
            raise ValueError(UNKNOWN)
        # speech and images have no special tokens
        return torch.zeros(batch, 0, dtype=torch.bool, device=model.device)

    def _along(self) -> Tensor | None:
        """Bool (items, source tokens), from what went along with the encoder's output. Asked for
        once a pass."""
        here = self.link.here
        encoded, here.encoded = here.encoded, None
        if isinstance(encoded, dict) and ALONG in encoded and KNOWN_BY in encoded:
            here.special = followed(encoded[ALONG], encoded[KNOWN_BY], encoded["last_hidden_state"])
        return here.special


@dataclass
class SeeMask(Hook):
    """On the self-attention beside an attached module: its mask, which shows the rows of padding.

    There, because gradient checkpointing runs the inside of a layer again: a mask seen further out
    would be another call's.
    """

    name: str
    parameters: list[str]

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        named = given(self.parameters, args, kwargs)
        mask = named["attention_mask"] if "attention_mask" in named else named.get("mask")
        if mask is not None and not isinstance(mask, Tensor):
            raise ValueError(FLEX)
        self.link.here.masks[self.name] = mask


def mark(states: Tensor | None, special: Tensor) -> None:
    """The mark lies on the storage: it lives as long as the states do, and a detached copy of them
    has it too."""
    if states is not None and not torch.compiler.is_compiling():
        marks = vars(states.untyped_storage())
        if marks.get(ALONG, (None, None))[0] is not special:
            marks[ALONG] = special, few(states)


def marked(states: Tensor | None) -> Tensor | None:
    if states is None or torch.compiler.is_compiling():
        return None
    special, known_by = vars(states.untyped_storage()).get(ALONG, (None, None))
    return None if special is None else followed(special, known_by, states)


def few(states: Tensor) -> Tensor:
    """A copy of a few numbers (items, positions, few) by which encoder states are recognised."""
    return states.detach()[..., :_FEW].clone()


def followed(special: Tensor, known_by: Tensor, states: Tensor) -> Tensor | None:
    """The special tokens of the sources that ``states`` (B, S, D) are of, bool (B, source tokens).

    ``special`` (items, source tokens) and ``known_by`` (items, S, few) went along with what the
    encoder gave. The states may have been reordered, repeated or selected since. None if one of
    them is not among those it gave.
    """
    now = states.detach()[..., :_FEW]
    if special.dim() != 2 or known_by.dim() != 3 or special.shape[0] != known_by.shape[0]:
        return None
    if now.shape[1:] != known_by.shape[1:]:
        return None
    # a cast of the states is still the same source
    known_by, special = known_by.to(now), special.to(now.device)
    compiling = torch.compiler.is_compiling()
    if not compiling and now.shape == known_by.shape and torch.equal(now, known_by):
        return special
    same = now[:, None] == known_by[None]
    same |= (now != now)[:, None] & (known_by != known_by)[None]  # NaN
    same = same.flatten(2).all(2)  # (B, items)
    if compiling:
        check_in_graph(same.any(1).all(), UNKNOWN)
    elif not bool(same.any(1).all()):
        return None
    return special[same.int().argmax(1)]


def _real_rows(mask: Tensor, rows: int, layer: CoveredLayer | None) -> Tensor:
    """Bool (B, T): the ``rows`` of a call that are not padding, by the self-attention mask."""
    if mask.dim() == 2:  # (B, rows so far), as flash attention has it
        return mask[:, -rows:].bool()
    # (B, 1, T, keys): a row of padding may not see itself. Its own key is the first one not seen
    # before, and in a sliding window, which forgets the oldest keys, still among the last.
    here = torch.arange(rows, device=mask.device)
    start = 0 if layer is None else layer.seen.to(mask.device).clamp(max=mask.shape[-1] - rows)
    itself = mask.expand(-1, -1, rows, -1)[:, 0, here, here + start]
    return itself if itself.dtype == torch.bool else itself == 0


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
    dwindle_pass: CrossPass | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor | None]:
    """The attention function of an attached module: queries (B, H, T, D) -> (B, T, H, D)."""
    if dwindle_pass is None:
        raise ValueError(
            f"{type(module).__name__} was called without its hook: was its forward called directly?"
        )
    one = dwindle_pass
    scoring = Scoring(_mask(attention_mask, one.rows), position_bias, scaling, softcap)
    work = CrossWork(
        query, key, value, scoring, one.rule, one.protected(key.shape[2]), one.at.link.backend
    )
    before, rows = one.coverage, query.shape[2]
    weights = None
    if one.layer is not None and one.layer.overwritable and not one.at.seen:
        context, _ = work.attention(before, dropout, inplace=True)
        one.layer.overwritten(rows)
    else:
        if one.at.seen:
            context, weights, after = _visible(one, work, before, dropout)
        else:
            context, after = work.attention(before, dropout)
        one.finish(after, rows, partial(work.replay, before))
    return context.transpose(1, 2).contiguous(), weights


@dataclass(frozen=True)
class CrossWork:
    """The arguments of one call of ``attend``."""

    query: Tensor
    key: Tensor
    value: Tensor
    scoring: Scoring
    rule: Rule
    protected: Tensor | None
    backend: str | None

    def attention(
        self, before: Any, dropout: float = 0.0, inplace: bool = False
    ) -> tuple[Tensor, Any]:
        """The context (B, H, T, D) and the coverage after it."""
        how = {
            "rule": self.rule,
            "protected": self.protected,
            "backend": self.backend,
            **self.scoring.arguments,
        }
        return attention(
            self.query,
            self.key,
            self.value,
            coverage=before,
            dropout=dropout,
            inplace=inplace,
            **how,
        )

    def replay(self, before: Any, rows: int) -> Any:
        """The coverage after the first ``rows`` rows."""
        first = replace(self, query=self.query[:, :, :rows], scoring=self.scoring.rows(slice(rows)))
        return first.attention(before)[1]


def _visible(
    one: CrossPass, work: CrossWork, before: Any, dropout: float
) -> tuple[Tensor, Tensor, Any]:
    """The same with the rows of attention held in memory, for a listener."""
    scores = work.scoring.scores(work.query, work.key)
    by_head = None if work.protected is None else work.protected[:, None, :]
    attended, weights, after = work.rule.attend(scores, before, protected=by_head)
    one.at.hear(attended, weights)
    return weighted_values(weights, work.value, dropout), weights, after


def _mask(mask: Tensor | None, rows: Tensor | None) -> Tensor | None:
    """One mask, broadcastable to (B, H, T, S), from any form the library hands over."""
    if mask is not None and not isinstance(mask, Tensor):
        raise ValueError(FLEX)
    if mask is not None and mask.dim() == 2:  # (B, S), as flash attention has it
        mask = mask[:, None, None, :].bool()
    if rows is None:
        return mask
    rows = rows[:, None, :, None]
    if mask is None:
        return rows
    return mask & rows if mask.dtype == torch.bool else mask.masked_fill(~rows, -torch.inf)
