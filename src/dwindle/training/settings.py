"""The training part of a recipe."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

from dwindle.folder.purpose import ATTENTION

Optimiser = Literal["adagrad", "adam", "adamw"]
Schedule = Literal["constant", "linear", "polynomial", "inverse-sqrt", "noam", "step"]
Objective = Literal["cross-entropy", "self-critical"]
_NUMBERS: list[tuple[tuple[str, ...], Callable[[float], bool], str]] = [
    (
        (
            *("steps", "epochs", "batch_size", "max_tokens", "accumulate", "decay_every", "sampling_every"),
            *("log_every", "eval_every", "save_every", "average"),
        ),
        lambda x: x >= 1,
        "1 or more",
    ),
    (
        (
            *("accumulator", "weight_decay", "warmup", "encoder_warmup", "clip", "clip_value", "coverage_loss"),
            *("power", "soft_trigrams", "clean_length", "clean_ratio", "sampling_step"),
        ),
        lambda x: x >= 0,
        "0 or more",
    ),
    (
        ("beta1", "beta2", "label_smoothing", "scheduled_sampling"),
        lambda x: 0 <= x < 1,
        "a number of at least 0 and below 1",
    ),
    (("learning_rate", "encoder_learning_rate", "decay"), lambda x: x > 0, "more than 0"),
]
"""Settings that are numbers, which of them are allowed, and how that is said."""


@dataclass(frozen=True)
class TrainingSettings:
    """How long, with what, how often. One update of the weights is a step."""

    steps: int | None = None
    """How many steps; or else epochs."""
    epochs: int | None = None
    """How many times over the examples. The last batch of an epoch is left out if it is not full."""
    batch_size: int = 16
    """Examples in a batch, over all processes together."""
    max_tokens: int | None = None
    """In place of that, tokens in a batch: its examples times the longest source or target among them, as fairseq
    counts. ``batch_size`` is then that of dev."""
    accumulate: int = 1
    """Batches in a step."""
    by_length: bool = False
    """Put examples of similar length into a batch: less padding. With ``max_tokens`` they always are."""
    clean_length: int = 0
    """Leave out examples with more tokens in source or target, as the Moses script for cleaning does; 0: none."""
    clean_ratio: float = 0.0
    """Leave out examples of which one side has more than this times the tokens of the other; 0: none."""
    objective: Objective = "cross-entropy"
    """What is learnt: the reference, or CIDEr-D of what the model writes (images only)."""
    soft_trigrams: float = 0.0
    """Self-critical: the trigram penalty of the greedy paragraph that a draw is measured against, as in decoding."""
    optimiser: Optimiser = "adam"
    """Which one."""
    learning_rate: float = 5e-4
    """The rate that the schedule scales."""
    accumulator: float = 0.1
    """What Adagrad's sums of squares begin with."""
    beta1: float = 0.9
    """Adam's memory of gradients."""
    beta2: float = 0.999
    """Adam's memory of squares."""
    weight_decay: float = 0.0
    """AdamW's; biases and norms have none."""
    schedule: Schedule = "constant"
    """How the rate goes on after the warm-up. Noam: rate x min(n^-0.5, n warmup^-1.5) at step n, as PreSumm's."""
    warmup: int = 0
    """Steps in which the rate rises from 0."""
    power: float = 1.0
    """Of the polynomial that falls to 0 at the end."""
    decay: float = 0.85
    """What the step schedule multiplies the rate with."""
    decay_every: int = 5
    """Epochs between two such."""
    encoder_learning_rate: float | None = None
    """The encoder's own rate, with a warm-up of its own: PreSumm's two optimisers."""
    encoder_warmup: int = 0
    """The encoder's own warm-up."""
    clip: float = 0.0
    """The largest norm of the gradient; 0: any."""
    clip_value: float = 0.0
    """The largest value, of either sign, of each number of the gradient; 0: any."""
    scheduled_sampling: float = 0.0
    """Captioner: the greatest chance with which it reads a word that it drew itself instead of the reference's; 0: off.
    The chance begins at 0 and grows by ``sampling_step`` every ``sampling_every`` epochs."""
    sampling_step: float = 0.05
    """How much that chance grows at a time."""
    sampling_every: int = 5
    """Epochs between two such."""
    label_smoothing: float = 0.0
    """The share of a label that goes to all words alike. Library models only."""
    coverage_loss: float | None = field(default=None, metadata=ATTENTION)
    """Pointer-generator with coverage: the weight of the coverage loss. None: as the model has it."""
    bf16: bool = False
    """Compute in bfloat16 where it is safe; weights stay in float32."""
    fp16: bool = False
    """Compute in float16 where it is safe, the loss scaled so that no gradient vanishes: for GPUs without bfloat16."""
    gradient_checkpointing: bool = False
    """Forget what layers computed, and compute it again for the gradient: less memory, more time. Library models."""
    workers: int = 0
    """Processes that make batches ahead of time, in each training process; 0: none, which is best without a GPU."""
    log_every: int = 50
    """Steps between two points of the curves."""
    eval_every: int | None = None
    """Steps between two measurements of the loss on dev. None: at the end."""
    save_every: int = 1000
    """Steps between two checkpoints, from which a run that was stopped goes on."""
    average: int = 1
    """The model is the mean of so many last checkpoints."""
    choose: str | None = None
    """The model is the best on dev of those that ``eval_every`` measures, by ``loss`` or a metric's name. None: the
    last."""

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("training lasts a number of steps or a number of epochs: pass one of the two")
        for name, options in (("optimiser", Optimiser), ("schedule", Schedule), ("objective", Objective)):
            if (given := getattr(self, name)) not in get_args(options):
                raise ValueError(f"{name}={given!r} is unknown: pass one of {', '.join(get_args(options))}")
        self._check_numbers()
        if self.schedule in ("inverse-sqrt", "noam") and not self.warmup:
            raise ValueError(f"the schedule {self.schedule} is defined by its warm-up: pass warmup=1 or more")
        if self.soft_trigrams and self.objective != "self-critical":
            raise ValueError("soft_trigrams belongs to self-critical training: leave it out, or set it in decoding")
        if self.scheduled_sampling and self.objective == "self-critical":
            raise ValueError("self-critical training draws all words anyway: leave scheduled_sampling out")
        if self.choose and (self.eval_every is None or self.average > 1):
            raise ValueError("choose takes the best of several evaluations: pass eval_every, and leave average out")
        if self.bf16 and self.fp16:
            raise ValueError("bf16 and fp16 are two ways to compute: pass one of the two")

    def _check_numbers(self) -> None:
        for names, fits, wanted in _NUMBERS:
            for name in names:
                given = getattr(self, name)
                if given is not None and not (math.isfinite(given) and fits(given)):
                    raise ValueError(f"{name}={given}: pass {wanted}")
