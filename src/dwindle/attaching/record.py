"""``record``: what a model attended to while it wrote an output, aligned with the tokens of that output.

A forward pass is recorded as it runs. A ``generate()`` is not: its beams come and go. Instead, when it is done, one
forward pass over its source and the tokens it returned is recorded. Feeding all rows at once gives the same weights as
decoding them one by one, so this is exact for every way of decoding, and decoding itself stays fast.
"""

from __future__ import annotations  # the types of transformers are named here but imported only when attaching

import inspect
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

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Heads = Literal["mean", "all"]


@dataclass(frozen=True)
class Record:
    """One output. L layers, N sequences, T rows, S source positions; with heads="all", H follows N."""

    layers: list[str]
    """The names of the recorded modules."""
    tokens: Tensor | None
    """(N, T): the token that row t led to. None for a forward pass, whose caller knows its labels."""
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


@contextmanager
def record(model: PreTrainedModel, layers: list[int] | None = None, heads: Heads = "mean") -> Iterator[list[Record]]:
    """Record every forward pass and every ``generate()`` of ``model`` inside the block, in the thread that opened it.

    Args:
        model: with a rule attached; a model without one is recorded as it is.
        layers: indices among the attached layers; None for all. Choose few to keep a record small.
        heads: ``"mean"`` over the heads, or ``"all"`` of them.

    Yields:
        A list that gets one ``Record`` for each pass.
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
    """The record of outputs that exist: ``sequences`` (N, 1 + T) as ``generate(**inputs)`` gave them, any time before.

    Args:
        model, layers, heads: as in ``record``.
        inputs: what ``generate`` was given; of it, the tensors that describe the source.
        sequences: as many for each source as you like, those of one source next to each other.
    """
    with _listening(model, layers, heads) as recorder:
        recorder.replay(sequences, inputs)
    return recorder.records[-1]


@contextmanager
def _listening(model: PreTrainedModel, layers: list[int] | None, heads: Heads) -> Iterator[_Recorder]:
    """A recorder that hears every pass of ``model`` in this thread inside the block."""
    with _attached(model) as handle:
        recorder = _Recorder(handle, _pick(handle, layers), heads)
        with recorder.listening():
            yield recorder


@contextmanager
def _attached(model: PreTrainedModel) -> Iterator[Handle]:
    """The handle of a model. One without a rule has a plain one until the last thread that records it is done."""
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


class _Recorder:
    """Hears the passes of one thread; a ``Listener`` of ``threads.py``."""

    def __init__(self, handle: Handle, picked: list[Attached], heads: Heads) -> None:
        self.handle, self.heads = handle, heads
        self.model = handle.model
        self.names = [one.name for one in picked]
        self.records: list[Record] = []
        self.tokens: Tensor | None = None
        self.begin()

    @contextmanager
    def listening(self, on: bool = True) -> Iterator[None]:
        here = self.handle.here
        before, here.listener = here.listener, self if on else None
        try:
            yield
        finally:
            here.listener = before

    def begin(self) -> None:
        self.attention: dict[str, list[Tensor]] = {name: [] for name in self.names}
        self.weights: dict[str, list[Tensor]] = {name: [] for name in self.names}

    def listens_to(self, name: str) -> bool:
        return name in self.attention

    def hear(self, name: str, attention: Tensor, weights: Tensor) -> None:
        if not self.listens_to(name):
            return
        for rows, kept in ((attention, self.attention), (weights, self.weights)):
            rows = rows.detach().float()
            kept[name].append((rows.mean(1) if self.heads == "mean" else rows).cpu())

    def end(self) -> None:
        """One record of what was heard of a pass."""
        if not all(self.attention.values()):
            return
        attention, weights = (
            torch.stack([torch.cat(heard[name], dim=-2) for name in self.names])
            for heard in (self.attention, self.weights)
        )
        if self.tokens is not None:  # the rows inside a prompt led to none of them
            first = attention.shape[-2] - self.tokens.shape[1]
            attention, weights = attention[..., first:, :], weights[..., first:, :]
        self.records.append(Record(self.names, self.tokens, attention, weights))
        self.begin()

    def generate(self, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self.listening(False):
            output = run(*args, **kwargs)
        sequences = output if isinstance(output, Tensor) else output.sequences
        self.replay(sequences, {self.model.main_input_name: args[0], **kwargs} if args else kwargs)
        return output

    @torch.no_grad()
    def replay(self, sequences: Tensor, given: dict[str, Any]) -> None:
        """One pass over the source that was given and the tokens that came back."""
        known = set(inspect.signature(type(self.model).forward).parameters) - {"labels"}
        if self.model.config.is_encoder_decoder:  # a pair of models hands on what its encoder knows
            known |= set(inspect.signature(type(self.model.get_encoder()).forward).parameters)
        source = {k: v for k, v in given.items() if k in known and isinstance(v, Tensor) and "decoder" not in k}
        times = sequences.shape[0] // next(iter(source.values())).shape[0]
        source = {k: v.repeat_interleave(times, dim=0) for k, v in source.items()}
        training = self.model.training
        self.model.eval()
        try:
            with self._one_row_of_logits():
                if self.handle.source == "prompt":
                    self._pass_over_prompt(sequences, source, "position_ids" in known)
                else:
                    self._pass_over_output(sequences, source)
        finally:
            self.tokens = None
            self.model.train(training)

    @contextmanager
    def _one_row_of_logits(self) -> Iterator[None]:
        """Nobody reads the logits of a replay, and (N, T, V) of them take more room than the model: of what this thread
        computes in the block, the head gets the last row only."""
        head = self.model.get_output_embeddings()
        if not isinstance(head, torch.nn.Linear):
            yield
            return

        def last(_: Any, given: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            rows = given and given[0].dim() == 3 and self.handle.here.listener is self
            return (given[0][:, -1:], *given[1:]) if rows else None

        hook = head.register_forward_pre_hook(last)
        try:
            yield
        finally:
            hook.remove()

    def _pass_over_output(self, sequences: Tensor, source: dict[str, Tensor]) -> None:
        self.tokens = sequences[:, 1:].cpu()
        rows = self._written(sequences)
        self.model(**source, decoder_input_ids=sequences[:, :-1], decoder_attention_mask=rows, use_cache=False)

    def _pass_over_prompt(self, sequences: Tensor, given: dict[str, Tensor], takes_positions: bool) -> None:
        """Prompt and output are one sequence (N, P + T); the last row of the prompt led to the first token."""
        if "input_ids" not in given:
            raise ValueError("a generate() is recorded from its tokens: pass input_ids, not inputs_embeds")
        prompt = given["input_ids"]
        width = prompt.shape[1]
        mask = given.get("attention_mask", torch.ones_like(prompt))
        real = torch.cat([mask, self._written(sequences[:, width - 1 :])[:, 1:]], dim=1)
        positions = {"position_ids": (real.cumsum(1) - 1).clamp(min=0)} if takes_positions else {}
        self.tokens = sequences[:, width:].cpu()
        # A span that is open stays open; else the source is what generate() took for it.
        open_span = self.handle.here.span is not None
        with nullcontext() if open_span else source_span(self.model, mask):
            self.model(input_ids=sequences[:, :-1], attention_mask=real, use_cache=False, **positions)

    def _written(self, sequences: Tensor) -> Tensor:
        """(N, T): 1 for rows that led to a token of the output, 0 once it has ended."""
        ends = self.model.generation_config.eos_token_id
        if ends is None:
            return torch.ones_like(sequences[:, 1:])
        return until_end(sequences[:, 1:], ends).long()


def until_end(tokens: Tensor, ends: int | list[int]) -> Tensor:
    """Bool (N, T): the tokens of each output; the one that ends it is the last, and the row that led to it counts."""
    ended = torch.isin(tokens, torch.as_tensor(ends, device=tokens.device)).long()
    return ended.cumsum(-1) - ended < 1
