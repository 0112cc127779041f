"""``record``: what a model attended to while it wrote, aligned with the tokens of its output.

A forward pass is recorded as it runs. A ``generate()`` is not: its beams come and go. Instead, when
it is done, one forward pass over its source and the tokens it returned is recorded. Feeding all
rows at once gives the same weights as decoding them one by one, so this is exact for every way of
decoding, and decoding itself stays fast.
"""

# the types of transformers are named here but imported only when attaching
from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from dwindle.attaching.handle import Handle, attach, handle_of, source_span
from dwindle.attaching.hooks import Attached
from dwindle.attaching.threads import changing
from dwindle.core.rules import Plain
from dwindle.display import optional, pieces

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Heads = Literal["mean", "all"]


@dataclass(frozen=True, repr=False)
class Record:
    """Attention and weights of one output.

    Shapes: L layers, N sequences, T rows, S source positions; with heads="all", H follows N.

    Example:
        >>> with dwindle.record(model) as records:
        ...     output = model.generate(**inputs, max_new_tokens=3)
        >>> records[0]
        Record(2 layers, 1 sequences, 3 rows, 4 source positions)
    """

    layers: list[str]
    """The names of the recorded modules."""
    tokens: Tensor | None
    """(N, T): the token that row t led to. None for a forward pass: its caller has the labels."""
    attention: Tensor
    """(L, N, T, S): plain attention."""
    weights: Tensor
    """(L, N, T, S): the diminished weights that were used."""

    @property
    def coverage(self) -> Tensor:
        """(L, N, S): the sum of the attention."""
        return self.attention.sum(-2)

    @property
    def effective(self) -> Tensor:
        """(L, N, S): the sum of the diminished weights (Eq. 4)."""
        return self.weights.sum(-2)

    def __repr__(self) -> str:
        layers, sequences, *heads, rows, positions = self.weights.shape
        all_heads = f", {heads[0]} heads" if heads else ""
        return (
            f"Record({layers} layers, {sequences} sequences{all_heads}, {rows} rows, {positions} "
            "source positions)"
        )

    def _repr_html_(self) -> str:
        rows = [
            (
                name,
                *(
                    f"{float(part.min()):.2f} to {float(part.max()):.2f}"
                    for part in (coverage, effective)
                ),
            )
            for name, coverage, effective in zip(
                self.layers, self.coverage, self.effective, strict=True
            )
        ]
        return pieces.table(
            ("layer", "coverage of a position", "of which was used"), rows, repr(self)
        )

    def to_pandas(self) -> Any:
        """A row for each layer, sequence and source position (and head): its coverage, and how much
        of it was used."""
        *axes, positions = self.coverage.shape
        index = torch.cartesian_prod(*(torch.arange(size) for size in (*axes, positions))).tolist()
        names = (
            ("layer", "sequence", "head", "position")
            if len(axes) == 3
            else ("layer", "sequence", "position")
        )
        both = zip(
            index, self.coverage.flatten().tolist(), self.effective.flatten().tolist(), strict=True
        )
        return optional.frame(
            [
                {
                    **dict(zip(names, at, strict=True)),
                    "layer": self.layers[at[0]],
                    "coverage": c,
                    "effective": e,
                }
                for at, c, e in both
            ]
        )

    def plot(self, axes: Any = None, sequence: int = 0) -> Any:
        """The weights of one sequence, mean over layers and heads: rows of the output down, the
        source across; the axes."""
        weights = self.weights[:, sequence].mean(0)
        while weights.dim() > 2:
            weights = weights.mean(0)
        axes = optional.axes(axes, height=4.8)
        axes.imshow(weights.numpy(), cmap="Blues", aspect="auto", vmin=0)
        axes.set_xlabel("source position")
        axes.set_ylabel("row of the output")
        return axes


@contextmanager
def record(
    model: PreTrainedModel, layers: list[int] | None = None, heads: Heads = "mean"
) -> Iterator[list[Record]]:
    """Record every forward pass and every ``generate()`` of ``model`` inside the block.

    It hears the thread or task that opened it, and what runs in a copy of its context, as
    ``source_span`` does.

    Args:
        model: with a rule attached; a model without one is recorded as it is.
        layers: indices among the attached layers; None for all. Choose few to keep a record small.
        heads: ``"mean"`` over the heads, or ``"all"`` of them.

    Yields:
        A list that gets one ``Record`` for each pass.

    Example:
        >>> with dwindle.record(model, layers=[1], heads="all") as records:
        ...     output = model(**inputs, decoder_input_ids=inputs["input_ids"])
        >>> records[0].weights.shape  # (L, N, H, T, S)
        torch.Size([1, 1, 2, 4, 4])
    """
    with _listening(model, layers, heads) as recorder:
        yield recorder.records


def replay(
    model: PreTrainedModel,
    inputs: dict[str, Any],
    sequences: Tensor,
    layers: list[int] | None = None,
    heads: Heads = "mean",
) -> Record:
    """The record of outputs that exist: ``sequences`` (N, 1 + T) as ``generate(**inputs)`` gave
    them, any time before.

    Args:
        model, layers, heads: as in ``record``.
        inputs: what ``generate`` was given; of it, the tensors that describe the source.
        sequences: as many for each source as you like, those of one source next to each other.
    """
    with _listening(model, layers, heads) as recorder:
        recorder.replay(sequences, inputs)
    return recorder.records[-1]


@contextmanager
def _listening(
    model: PreTrainedModel, layers: list[int] | None, heads: Heads
) -> Iterator[_Recorder]:
    """A recorder that hears every pass of ``model`` inside the block."""
    with _attached(model) as handle:
        recorder = _Recorder(handle, _pick(handle, layers), heads)
        with recorder.listening():
            yield recorder


@contextmanager
def _attached(model: PreTrainedModel) -> Iterator[Handle]:
    """The handle of a model. One without a rule has a plain one until the last thread that records
    it is done."""
    with changing():
        handle = handle_of(model)
        if handle is None:
            handle = attach(model, Plain())
            handle.guests = 0
        if handle.guests is not None:
            handle.guests += 1
    try:
        yield handle
    finally:
        with changing():
            if handle.guests is not None:
                handle.guests -= 1
            if handle.guests == 0 and handle_of(model) is handle:
                handle.detach()


def _pick(handle: Handle, layers: list[int] | None) -> list[Attached]:
    count = len(handle.attached)
    try:
        picked = handle.attached if layers is None else [handle.attached[i] for i in layers]
    except IndexError:
        picked = []
    if not picked:
        raise ValueError(f"layers={layers}, but the attached layers are numbered 0 to {count - 1}")
    return picked


class _Heard(threading.local):
    """Rows that one thread has recorded of the pass that runs in it."""

    def __init__(self) -> None:
        self.attention: dict[str, list[Tensor]] = {}
        self.weights: dict[str, list[Tensor]] = {}
        self.tokens: Tensor | None = None


class _Recorder:
    """Hears the passes of one context; a ``Listener`` of ``threads.py``."""

    def __init__(self, handle: Handle, picked: list[Attached], heads: Heads) -> None:
        self.handle, self.heads = handle, heads
        self.model = handle.model
        self.names = [one.name for one in picked]
        self.records: list[Record] = []
        self.heard = _Heard()

    @contextmanager
    def listening(self, on: bool = True) -> Iterator[None]:
        with self.handle.scopes.opened("listener", self if on else None):
            yield

    def begin(self) -> None:
        self.heard.attention = {name: [] for name in self.names}
        self.heard.weights = {name: [] for name in self.names}

    def listens_to(self, name: str) -> bool:
        return name in self.names

    def hear(self, name: str, attention: Tensor, weights: Tensor) -> None:
        if not self.listens_to(name):
            return
        for rows, kept in ((attention, self.heard.attention), (weights, self.heard.weights)):
            rows = rows.detach().float()
            kept.setdefault(name, []).append((rows.mean(1) if self.heads == "mean" else rows).cpu())

    def end(self) -> None:
        """One record of what was heard of a pass."""
        heard, tokens = self.heard, self.heard.tokens
        if not (heard.attention and all(heard.attention.values())):
            return
        attention, weights = (
            torch.stack([torch.cat(rows[name], dim=-2) for name in self.names])
            for rows in (heard.attention, heard.weights)
        )
        if tokens is not None:  # the rows inside a prompt led to none of them
            first = attention.shape[-2] - tokens.shape[1]
            attention, weights = attention[..., first:, :], weights[..., first:, :]
        self.records.append(Record(self.names, tokens, attention, weights))
        self.begin()

    def generate(
        self, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        given = {**kwargs, **({"inputs": args[0]} if args else {})}
        if isinstance(encoded := given.get("encoder_outputs"), dict):
            # generate() repeats the states in place, for its beams
            given["encoder_outputs"] = copy.copy(encoded)
        with self.listening(False):
            output = run(*args, **kwargs)
        sequences = output if isinstance(output, Tensor) else output.sequences
        self.replay(sequences, given)
        return output

    @torch.no_grad()
    def replay(self, sequences: Tensor, given: dict[str, Any]) -> None:
        """One pass over the source that was given and the tokens that came back."""
        given = self._named(given)
        known = set(inspect.signature(type(self.model).forward).parameters) - {"labels"}
        if self.model.config.is_encoder_decoder:  # a pair of models hands on what its encoder knows
            known |= set(inspect.signature(type(self.model.get_encoder()).forward).parameters)
        source = {
            k: v
            for k, v in given.items()
            if k in known and isinstance(v, Tensor) and "decoder" not in k
        }
        if "encoder_outputs" in known and given.get("encoder_outputs") is not None:
            source["encoder_outputs"] = given["encoder_outputs"]
        source = _repeated(source, sequences.shape[0])
        training = self.model.training
        self.model.eval()
        try:
            with self._one_row_of_logits():
                if self.handle.source == "prompt":
                    self._pass_over_prompt(sequences, source, "position_ids" in known)
                else:
                    self._pass_over_output(
                        sequences, source, given, "decoder_position_ids" in known
                    )
        finally:
            self.heard.tokens = None
            self.model.train(training)

    def _named(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments of ``generate``, with ``inputs`` under the model's own name for them."""
        inputs = given.get("inputs")
        if inputs is None:
            return given
        reader = (
            getattr(self.model, "encoder", None) if self.model.config.is_encoder_decoder else None
        )
        name = getattr(reader, "main_input_name", self.model.main_input_name)
        return {**{k: v for k, v in given.items() if k != "inputs"}, name: inputs}

    @contextmanager
    def _one_row_of_logits(self) -> Iterator[None]:
        """Nobody reads the logits of a replay, and (N, T, V) of them take more room than the model:
        of what this thread computes in the block, the head gets the last row only."""
        head = self.model.get_output_embeddings()
        if not isinstance(head, torch.nn.Linear):
            yield
            return

        def last(_: Any, given: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            rows = given and given[0].dim() == 3 and self.handle.scopes.listener is self
            return (given[0][:, -1:], *given[1:]) if rows else None

        hook = head.register_forward_pre_hook(last)
        try:
            yield
        finally:
            hook.remove()

    def _pass_over_output(
        self,
        sequences: Tensor,
        source: dict[str, Any],
        given: dict[str, Any],
        takes_positions: bool,
    ) -> None:
        """The decoder's prompt and its output are one sequence (N, 1 + T), whose row t led to token
        t + 1."""
        mask = {"mask": self._prompt_mask(sequences, given)}
        prompt = _repeated(mask, sequences.shape[0])["mask"]
        rows = torch.cat(
            [prompt[:, :-1], self._written(sequences[:, prompt.shape[1] - 1 :])], dim=1
        )
        positions = {}
        # positions as generate() gives them to prompts with padding
        if takes_positions and not bool(prompt.all()):
            positions = {"decoder_position_ids": (rows.cumsum(1) - 1).clamp(min=0)}
        self.heard.tokens = sequences[:, 1:].cpu()
        self.model(
            **source,
            decoder_input_ids=sequences[:, :-1],
            decoder_attention_mask=rows,
            use_cache=False,
            **positions,
        )

    @staticmethod
    def _prompt_mask(sequences: Tensor, given: dict[str, Any]) -> Tensor:
        """(B, P): 1 for the tokens of the decoder's prompt, 0 for its padding. Without a prompt,
        the start token's."""
        ids = given.get("decoder_input_ids")
        if ids is None:
            return torch.ones_like(sequences[:, :1])
        mask = given.get("decoder_attention_mask")
        mask = torch.ones_like(ids) if mask is None else mask.to(ids)
        shown = ids.repeat_interleave(max(1, sequences.shape[0] // ids.shape[0]), dim=0)
        # generate() has put a start token before it
        if not torch.equal(sequences[:, : ids.shape[1]], shown):
            mask = torch.cat([torch.ones_like(mask[:, :1]), mask], dim=1)
        return mask

    def _pass_over_prompt(
        self, sequences: Tensor, given: dict[str, Tensor], takes_positions: bool
    ) -> None:
        """Prompt and output are one sequence (N, P + T); row P - 1 led to the first token."""
        if "input_ids" not in given:
            raise ValueError(
                "a generate() is recorded from its tokens: pass input_ids, not inputs_embeds"
            )
        prompt = given["input_ids"]
        width = prompt.shape[1]
        mask = given.get("attention_mask", torch.ones_like(prompt))
        real = torch.cat([mask, self._written(sequences[:, width - 1 :])[:, 1:]], dim=1)
        positions = {"position_ids": (real.cumsum(1) - 1).clamp(min=0)} if takes_positions else {}
        self.heard.tokens = sequences[:, width:].cpu()
        # A span that is open stays open; else the source is what generate() took for it.
        open_span = self.handle.scopes.span is not None
        with nullcontext() if open_span else source_span(self.model, mask):
            self.model(
                input_ids=sequences[:, :-1], attention_mask=real, use_cache=False, **positions
            )

    def _written(self, sequences: Tensor) -> Tensor:
        """(N, T): 1 for rows that led to a token of the output, 0 once it has ended."""
        ends = self.model.generation_config.eos_token_id
        if ends is None:
            return torch.ones_like(sequences[:, 1:])
        return until_end(sequences[:, 1:], ends).long()


def _repeated(source: dict[str, Any], rows: int) -> dict[str, Any]:
    """Every row as often as it takes for so many in all."""

    def repeated(x: Any) -> Any:
        if isinstance(x, Tensor):
            if not x.shape[0] or rows % x.shape[0]:
                raise ValueError(
                    f"{rows} outputs cannot be shared among {x.shape[0]} sources: give one source "
                    "per text"
                )
            return x.repeat_interleave(rows // x.shape[0], dim=0)
        if isinstance(x, dict):
            again = copy.copy(x)
            for name, value in x.items():
                again[name] = repeated(value)
            return again
        return tuple(repeated(value) for value in x) if isinstance(x, tuple) else x

    if not source:
        raise ValueError(
            "a generate() is recorded from its source: pass input_ids, inputs or encoder_outputs"
        )
    return {name: repeated(x) for name, x in source.items()}


def until_end(tokens: Tensor, ends: int | list[int]) -> Tensor:
    """Bool (N, T): the tokens of each output; the one that ends it is the last, and the row that
    led to it counts."""
    ended = torch.isin(tokens, torch.as_tensor(ends, device=tokens.device)).long()
    return ended.cumsum(-1) - ended < 1
