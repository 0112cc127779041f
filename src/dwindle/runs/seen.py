"""What the model of a run looked at while it wrote one output of its test split, token by token."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dwindle.data.load import load
from dwindle.generation.generate import counted, generate
from dwindle.models.attended import attended
from dwindle.runs import steps
from dwindle.runs.directory import Run

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """S source tokens, T output tokens, and the weights (T, S) between them, of the last layer with a rule."""

    source: list[str]
    target: list[str]
    attention: Array
    """Plain."""
    weights: Array
    """As used: diminished, where there is a rule."""


def seen(run: Run, index: int = 0) -> Seen:
    """Write the output of the test item at ``index`` once more, and look."""
    model, codec = steps.model_of(run)
    example = load(run.recipe.data, "test")[index]
    batch = codec.collate([codec.encode(example.input)])
    sequences = generate(model, batch, run.recipe.decoding)
    with counted(model, run.recipe.model.layers):
        record = attended(model, batch, sequences)
    written = [codec.decode(sequences[:, t : t + 1].cpu(), batch)[0] for t in range(1, sequences.shape[1])]
    source = codec.source_tokens(example.input)
    attention, weights = (x[-1, 0, :, : len(source)].double().cpu().numpy() for x in (record.attention, record.weights))
    return Seen(source, written, attention, weights)
