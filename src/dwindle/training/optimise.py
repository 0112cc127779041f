"""Optimisers and learning rates, from settings. One optimiser has all weights; an encoder may have
its own rate."""

from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel

from dwindle.training.settings import TrainingSettings

_NEVER_DECAY = ("bias", "norm")


def optimiser(model: PreTrainedModel, settings: TrainingSettings) -> Optimizer:
    """The optimiser of ``settings`` for ``model``. An encoder with its own rate comes first."""
    groups = _groups(model, settings)
    if settings.optimiser == "adagrad":
        # fused: one pass over the weights, not five; CPUs only
        fused = all(p.is_cpu for p in model.parameters()) or None
        return torch.optim.Adagrad(
            groups, initial_accumulator_value=settings.accumulator, fused=fused
        )
    kind = torch.optim.AdamW if settings.optimiser == "adamw" else torch.optim.Adam
    return kind(groups, betas=(settings.beta1, settings.beta2))


def schedule(optimizer: Optimizer, settings: TrainingSettings, steps: int, epoch: int) -> LambdaLR:
    """The learning rates of a training of ``steps`` steps, ``epoch`` of them an epoch."""

    def rate(warmup: int) -> Any:
        return lambda done: factor(settings, warmup, done + 1, steps, epoch)

    warmups = [group["warmup"] for group in optimizer.param_groups]
    return LambdaLR(optimizer, [rate(warmup) for warmup in warmups])


def factor(settings: TrainingSettings, warmup: int, n: int, steps: int, epoch: int) -> float:
    """Factor of the learning rate at step ``n``, counted from 1."""
    kind = settings.schedule
    if kind == "noam":
        return float(min(n**-0.5, n * warmup**-1.5))
    if n <= warmup:
        return n / warmup
    if kind == "inverse-sqrt":
        return float((warmup / n) ** 0.5)
    if kind == "step":
        return float(settings.decay ** ((n - 1) // epoch // settings.decay_every))
    if kind == "constant":
        return 1.0
    left = (steps + 1 - n) / max(steps - warmup, 1)  # 1 at the first step after the warm-up
    return float(left ** (settings.power if kind == "polynomial" else 1))


def _groups(model: PreTrainedModel, settings: TrainingSettings) -> list[dict[str, Any]]:
    """Weights that share a learning rate, a warm-up and a decay."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    parts = [(settings.learning_rate, settings.warmup, named)]
    if settings.encoder_learning_rate is not None:
        inside = {id(p) for p in model.get_encoder().parameters()}
        encoder = {name: p for name, p in named.items() if id(p) in inside}
        others = {name: p for name, p in named.items() if id(p) not in inside}
        parts = [
            (settings.encoder_learning_rate, settings.encoder_warmup or settings.warmup, encoder),
            (settings.learning_rate, settings.warmup, others),
        ]
    return [
        {
            "params": some,
            "lr": rate,
            "warmup": warmup,
            "weight_decay": settings.weight_decay if decays else 0.0,
        }
        for rate, warmup, weights in parts
        for decays in (True, False)
        if (
            some := [
                p
                for name, p in weights.items()
                if decays != any(x in name.lower() for x in _NEVER_DECAY)
            ]
        )
    ]
