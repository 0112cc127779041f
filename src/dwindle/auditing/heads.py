"""Peak attention of single heads, from one forward pass over a source and a finished output.

A head's peak at a source position is the most attention that any row of the output paid to it.
Nothing but the chosen heads is computed beside the plain pass: hooks keep the queries and keys that
the model projects anyway, so the pass runs with whatever attention kernel it has, and it ends at
the last layer that has a chosen head. What is measured is plain attention, also in a model with a
rule. Knows nothing of texts, sounds or thresholds.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dwindle.attaching.find import cross_attention
from dwindle.models.vocabulary_product import widened

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Head = tuple[int, int]
"""A cross-attention layer, counted from the first, and a head in it."""

_PROJECTIONS = (("q_proj", "k_proj"), ("q", "k"), ("query", "key"))
_COUNTS = ("num_heads", "n_heads", "num_attention_heads")


class Ear:
    """One cross-attention module: its number of heads, and its way from queries to weights."""

    def __init__(self, name: str, module: nn.Module) -> None:
        pairs: list[tuple[Any, Any]] = [
            (getattr(module, q, None), getattr(module, k, None)) for q, k in _PROJECTIONS
        ]
        projections = [pair for pair in pairs if all(isinstance(one, nn.Linear) for one in pair)]
        self.count = next((int(getattr(module, n)) for n in _COUNTS if hasattr(module, n)), 0)
        if (
            not projections
            or not self.count
            or len({one.out_features for one in projections[0]}) > 1
        ):
            raise ValueError(
                f"{name} is a {type(module).__name__}, whose queries and keys are not found: "
                "pass its attention as arrays to Listeners.finding instead"
            )
        self.query, self.key = projections[0]
        # T5 and its kin, which say so in new releases only
        unscaled = hasattr(module, "has_relative_attention_bias")
        usual = 1.0 if unscaled else (self.query.out_features // self.count) ** -0.5
        self.scaling = float(getattr(module, "scaling", usual))

    def peaks(
        self, query: Tensor, key: Tensor, heads: list[int], rows: Tensor, real: Tensor | None
    ) -> Tensor:
        """(B, h, S): the peaks of ``heads``, from queries (B, T, H*D) and keys (B, S, H*D).

        ``rows`` (B, T) says which rows count; ``real`` (B, S) which positions are not padding.
        """
        q, k = (x.float().view(*x.shape[:2], self.count, -1)[:, :, heads] for x in (query, key))
        scores = torch.einsum("bthd,bshd->bhts", q, k) * self.scaling
        if real is not None:
            scores = scores.masked_fill(~real[:, None, None], float("-inf"))
        weights = scores.softmax(-1).masked_fill(~rows[:, None, :, None], 0.0)
        return weights.amax(-2)


def ears(model: "PreTrainedModel") -> list[Ear]:
    """The cross-attention modules of ``model``, in the order of its layers."""
    found = cross_attention(model)
    if not found:
        raise ValueError(f"{type(model).__name__} has no cross-attention: take an encoder-decoder")
    return [Ear(one.name, one.module) for one in found]


def all_heads(model: "PreTrainedModel") -> list[Head]:
    """Every head that could be chosen."""
    return [(layer, head) for layer, ear in enumerate(ears(model)) for head in range(ear.count)]


@torch.inference_mode()
def peaks(
    model: "PreTrainedModel",
    heads: Sequence[Head],
    inputs: dict[str, Tensor],
    outputs: Tensor,
    rows: Tensor,
) -> Tensor:
    """(B, heads, S): the peak attention of each of the ``heads``, in their order.

    Args:
        inputs: the source, as the model takes it.
        outputs: (B, T) decoder input, one row of attention for each token.
        rows: (B, T) bool: the rows that count.
    """
    found = ears(model)
    layers = sorted({layer for layer, _ in heads})
    if layers and layers[-1] >= len(found):
        raise ValueError(
            f"layer {layers[-1]} was chosen, but this model has {len(found)}: choose its "
            "listeners again"
        )
    for layer, head in heads:
        if head >= found[layer].count:
            raise ValueError(
                f"head {head} of layer {layer} was chosen, but it has {found[layer].count}: choose "
                "the listeners of this model again"
            )
    with _evaluating(model), widened(model, every=True):
        given = _encoded_once(model, inputs)
        with _kept({layer: found[layer] for layer in layers}) as kept, suppress(_Heard):
            # Without the output layer, where the library lets it be left away: it tells nothing of
            # attention.
            model.base_model(**given, decoder_input_ids=outputs, use_cache=False)
    real = inputs["attention_mask"].bool() if "attention_mask" in inputs else None
    here = {layer: [h for at, h in heads if at == layer] for layer in layers}
    parts = {
        n: found[n].peaks(kept[n]["query"], kept[n]["key"], here[n], rows, real) for n in layers
    }
    return torch.stack([parts[layer][:, here[layer].index(head)] for layer, head in heads], dim=1)


def _encoded_once(model: "PreTrainedModel", inputs: dict[str, Tensor]) -> dict[str, Any]:
    """The inputs with the states of the encoder, if sources repeat; else as they are.

    Several outputs of one source then cost one pass of the encoder.
    """
    name = model.main_input_name
    rows: dict[bytes, int] = {}
    back = [rows.setdefault(row.cpu().numpy().tobytes(), len(rows)) for row in inputs[name]]
    if len(rows) == len(back):
        return dict(inputs)
    first = [back.index(n) for n in range(len(rows))]
    states = model.get_encoder()(
        **{key: value[first] for key, value in inputs.items()}
    ).last_hidden_state
    rest = {key: value for key, value in inputs.items() if key != name}
    return {**rest, "encoder_outputs": (states[back],)}


class _Heard(Exception):
    """Raised when all queries and keys are there: the rest of the pass is not needed."""


@contextmanager
def _kept(listening: dict[int, Ear]) -> Iterator[dict[int, dict[str, Tensor]]]:
    """By layer, the queries and keys of a forward pass inside the block, which ends by ``_Heard``
    once it has all."""
    kept: dict[int, dict[str, Tensor]] = {layer: {} for layer in listening}

    def keep(layer: int, what: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Tensor) -> None:
            kept[layer][what] = output
            if all(len(both) == 2 for both in kept.values()):
                raise _Heard

        return hook

    hooks = [
        projection.register_forward_hook(keep(layer, what))
        for layer, ear in listening.items()
        for what, projection in (("query", ear.query), ("key", ear.key))
    ]
    try:
        yield kept
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _evaluating(model: "PreTrainedModel") -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
