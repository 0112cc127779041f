"""The training part of a recipe."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

from dwindle.settings.purpose import ATTENTION

Optimiser = Literal["adagrad", "adam", "adamw"]
Schedule = Literal["constant", "linear", "polynomial", "inverse-sqrt", "noam", "step"]
Objective = Literal["cross-entropy", "self-critical"]
_NUMBERS: list[tuple[tuple[str, ...], Callable[[float], bool], str]] = [
    (
        (
            "steps",
            "epochs",
            "batch_size",
            "max_tokens",
            "accumulate",
            "decay_every",
            "sampling_every",
            "log_every",
            "eval_every",
            "save_every",
            "average",
        ),
        lambda x: x >= 1,
        "1 or more",
    ),
    (
        (
            "accumulator",
            "weight_decay",
            "warmup",
            "encoder_warmup",
            "clip",
            "clip_value",
            "coverage_loss",
            "power",
            "soft_trigrams",
            "clean_length",
            "clean_ratio",
            "sampling_step",
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
"""Settings that are numbers: their names, the test of a value, and the allowed range in words."""


@dataclass(frozen=True)
class TrainingSettings:
    """Length, optimiser, schedule, bookkeeping of a training. A *step* is one update of weights."""

    steps: int | None = None
    """Number of steps. Give either this or ``epochs``."""
    epochs: int | None = None
    """Number of passes over the training examples, each without its last batch if not full."""
    batch_size: int = 16
    """Number of examples in a batch, over all processes together (default 16)."""
    max_tokens: int | None = None
    """Tokens in a batch, instead of ``batch_size``: its number of examples times its longest source
    or target, as fairseq counts. ``batch_size`` then holds for dev only."""
    accumulate: int = 1
    """Number of batches whose gradients make one step (default 1)."""
    by_length: bool = False
    """Batch examples of similar length, for less padding. Always on with ``max_tokens``."""
    clean_length: int = 0
    """Drop examples with more tokens than this in source or target, as Moses' cleaning script does;
    0 keeps all."""
    clean_ratio: float = 0.0
    """Drop examples with one side longer than this many times the other in tokens; 0 keeps all."""
    objective: Objective = "cross-entropy"
    """``cross-entropy`` with the reference, or ``self-critical``: CIDEr-D of its output (captioner
    only)."""
    soft_trigrams: float = 0.0
    """Self-critical training: trigram penalty of the greedy paragraph that a drawn one is compared
    with, as ``decoding.soft_trigrams``; 0 is off."""
    optimiser: Optimiser = "adam"
    """Name of the optimiser: ``adam``, ``adamw`` or ``adagrad`` (default ``adam``)."""
    learning_rate: float = 5e-4
    """Learning rate that the schedule scales (default 5e-4)."""
    accumulator: float = 0.1
    """Adagrad: initial value of the sums of squared gradients (default 0.1, as See has it)."""
    beta1: float = 0.9
    """Adam: decay of the mean of gradients, from 0 to below 1 (default 0.9)."""
    beta2: float = 0.999
    """Adam: decay of the mean of squared gradients, from 0 to below 1 (default 0.999)."""
    weight_decay: float = 0.0
    """AdamW: weight decay, 0 or more. Biases and norms are not decayed."""
    schedule: Schedule = "constant"
    """Course of the learning rate after the warm-up: ``constant``, ``linear``, ``polynomial``,
    ``inverse-sqrt``, ``step`` or ``noam`` (rate x min(n^-0.5, n warmup^-1.5) at step n, as in
    PreSumm)."""
    warmup: int = 0
    """Number of steps in which the learning rate rises from 0."""
    power: float = 1.0
    """Exponent of the ``polynomial`` schedule, which falls to 0 at the end (default 1)."""
    decay: float = 0.85
    """Factor of the ``step`` schedule: the learning rate is multiplied by it every ``decay_every``
    epochs (default 0.85)."""
    decay_every: int = 5
    """Number of epochs to wait before the learning rate is multiplied by ``decay`` (default 5)."""
    encoder_learning_rate: float | None = None
    """Learning rate of the encoder, if it differs: PreSumm's two optimisers."""
    encoder_warmup: int = 0
    """Number of warm-up steps of ``encoder_learning_rate``."""
    clip: float = 0.0
    """Largest norm of the gradient; 0 does not clip."""
    clip_value: float = 0.0
    """Largest absolute value of each number in the gradient; 0 does not clip."""
    scheduled_sampling: float = 0.0
    """Captioner: highest probability of reading a word that the model drew itself instead of the
    reference's; 0 is off. It starts at 0 and grows by ``sampling_step`` every ``sampling_every``
    epochs."""
    sampling_step: float = 0.05
    """Captioner: growth of the probability of ``scheduled_sampling`` at a time (default 0.05)."""
    sampling_every: int = 5
    """Captioner: number of epochs after which that probability grows (default 5)."""
    label_smoothing: float = 0.0
    """Share of a label that is spread over all words, from 0 to below 1. Library models only."""
    coverage_loss: float | None = field(default=None, metadata=ATTENTION)
    """Pointer-generator with coverage: weight of the coverage loss. None: the model's own."""
    bf16: bool = False
    """Compute in bfloat16 where it is safe; weights stay in float32."""
    fp16: bool = False
    """Compute in float16 where it is safe, the loss scaled so that no gradient vanishes: for GPUs
    without bfloat16."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time. Library models only."""
    workers: int = 0
    """Number of processes that prepare batches, for each training process; 0 prepares
    none, which is best without a GPU."""
    log_every: int = 50
    """Number of steps between two points of the training curves (default 50)."""
    eval_every: int | None = None
    """Number of steps between two measurements of the loss on dev. None: once, at the end."""
    save_every: int = 1000
    """Number of steps between two checkpoints, to resume a stopped run from (default 1000)."""
    average: int = 1
    """Save the mean of this many last checkpoints as the model (default 1: the last one)."""
    choose: str | None = None
    """Save the model that was best on dev at one of the evaluations of ``eval_every``: ``loss``, or
    the name of a metric. None: the last one."""

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError(
                "training lasts a number of steps or a number of epochs: pass one of the two"
            )
        for name, options in (
            ("optimiser", Optimiser),
            ("schedule", Schedule),
            ("objective", Objective),
        ):
            if (given := getattr(self, name)) not in get_args(options):
                raise ValueError(
                    f"{name}={given!r} is unknown: pass one of {', '.join(get_args(options))}"
                )
        self._check_numbers()
        if self.schedule in ("inverse-sqrt", "noam") and not self.warmup:
            raise ValueError(
                f"the schedule {self.schedule} is defined by its warm-up: pass warmup=1 or more"
            )
        if self.soft_trigrams and self.objective != "self-critical":
            raise ValueError(
                "soft_trigrams belongs to self-critical training: leave it out, or set it in "
                "decoding"
            )
        if self.scheduled_sampling and self.objective == "self-critical":
            raise ValueError(
                "self-critical training draws all words anyway: leave scheduled_sampling out"
            )
        if self.choose and (self.eval_every is None or self.average > 1):
            raise ValueError(
                "choose takes the best of several evaluations: pass eval_every, and leave average "
                "out"
            )
        if self.bf16 and self.fp16:
            raise ValueError("bf16 and fp16 are two ways to compute: pass one of the two")

    def _check_numbers(self) -> None:
        for names, fits, wanted in _NUMBERS:
            for name in names:
                given = getattr(self, name)
                if given is not None and not (math.isfinite(given) and fits(given)):
                    raise ValueError(f"{name}={given}: pass {wanted}")
