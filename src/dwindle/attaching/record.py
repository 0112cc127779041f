"""``record``: what a model attended to while it wrote an output, aligned with the tokens of that output.

A forward pass is recorded as it runs. A ``generate()`` is not: its beams come and go. Instead, when it is done, one
forward pass over its source and the tokens it returned is recorded. Feeding all rows at once gives the same weights as
decoding them one by one, so this is exact for every way of decoding, and decoding itself stays fast.
"""

from __future__ import annotations  # the types of transformers are named here but imported only when attaching

import inspect
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from dwindle.attaching.handle import Attached, Handle, attach
from dwindle.attaching.prompt import source_span
from dwindle.core.coverage import Coverage
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
    """Record every forward pass and every ``generate()`` of ``model`` inside the block.

    Args:
        model: with a rule attached; a model without one is recorded as it is.
        layers: indices among the attached layers; None for all. Choose few to keep a record small.
        heads: ``"mean"`` over the heads, or ``"all"`` of them.

    Yields:
        A list that gets one ``Record`` for each pass.
    """
    with _listening(model, layers, heads) as recorder:
        generate, own = model.generate, model.__dict__.get("generate")
        model.generate = recorder.generating(generate)
        try:
            yield recorder.records
        finally:
            del model.generate
            if own is not None:
                model.generate = own


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
    """A recorder that hears every pass of ``model`` inside the block."""
    handle: Handle | None = getattr(model, "_dwindle", None)
    borrowed = attach(model, Plain()) if handle is None else None
    handle = handle or borrowed
    assert handle is not None
    try:
        recorder = _Recorder(model, _pick(handle, layers), heads)
        hook = model.register_forward_hook(recorder.bundle)
        recorder.listen(True)
        try:
            yield recorder
        finally:
            recorder.listen(False)
            hook.remove()
    finally:
        if borrowed is not None:
            borrowed.detach()


def _pick(handle: Handle, layers: list[int] | None) -> list[Attached]:
    count = len(handle.attached)
    try:
        picked = handle.attached if layers is None else [handle.attached[i] for i in layers]
    except IndexError:
        picked = []
    if not picked:
        raise ValueError(f"layers={layers}, but the attached layers are numbered 0 to {count - 1}")
    return picked


@dataclass
class _Sink:
    """Collects the rows of one module during one pass."""

    heads: Heads
    attention: list[Tensor] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)

    def __call__(self, attention: Tensor, weights: Tensor, after: Coverage) -> None:
        for rows, kept in ((attention, self.attention), (weights, self.weights)):
            rows = rows.detach().float()
            kept.append((rows.mean(1) if self.heads == "mean" else rows).cpu())


class _Recorder:
    def __init__(self, model: PreTrainedModel, picked: list[Attached], heads: Heads) -> None:
        self.model, self.picked, self.heads = model, picked, heads
        self.records: list[Record] = []
        self.tokens: Tensor | None = None

    def listen(self, on: bool) -> None:
        for one in self.picked:
            one.sink = _Sink(self.heads) if on else None

    def bundle(self, model: Any, args: Any, output: Any) -> None:
        """After a forward pass: one record of what the sinks have collected."""
        sinks = [one.sink for one in self.picked]
        if not all(isinstance(sink, _Sink) and sink.attention for sink in sinks):
            return
        attention = torch.stack([torch.cat(sink.attention, dim=-2) for sink in sinks])  # type: ignore[union-attr]
        weights = torch.stack([torch.cat(sink.weights, dim=-2) for sink in sinks])  # type: ignore[union-attr]
        if self.tokens is not None:  # the rows inside a prompt led to none of them
            first = attention.shape[-2] - self.tokens.shape[1]
            attention, weights = attention[..., first:, :], weights[..., first:, :]
        self.records.append(Record([one.name for one in self.picked], self.tokens, attention, weights))
        self.listen(True)

    def generating(self, generate: Any) -> Any:
        def recorded(inputs: Tensor | None = None, **kwargs: Any) -> Any:
            self.listen(False)
            try:
                output = generate(inputs, **kwargs)
            finally:
                self.listen(True)
            sequences = output if isinstance(output, Tensor) else output.sequences
            self.replay(sequences, kwargs if inputs is None else {self.model.main_input_name: inputs, **kwargs})
            return output

        return recorded

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
            if self.model._dwindle.source == "prompt":
                self._pass_over_prompt(sequences, source, "position_ids" in known)
            else:
                self.tokens = sequences[:, 1:].cpu()
                rows = self._written(sequences)
                self.model(**source, decoder_input_ids=sequences[:, :-1], decoder_attention_mask=rows, use_cache=False)
        finally:
            self.tokens = None
            self.model.train(training)

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
        open_span = self.model._dwindle.context.span is not None
        with nullcontext() if open_span else source_span(self.model, mask):
            self.model(input_ids=sequences[:, :-1], attention_mask=real, use_cache=False, **positions)

    def _written(self, sequences: Tensor) -> Tensor:
        """(N, T): 1 for rows that led to a token of the output, 0 once it has ended."""
        ends = self.model.generation_config.eos_token_id
        if ends is None:
            return torch.ones_like(sequences[:, 1:])
        ended = torch.isin(sequences[:, 1:], torch.as_tensor(ends, device=sequences.device)).long()
        return (ended.cumsum(-1) - ended < 1).long()  # the row that led to the end itself still counts
