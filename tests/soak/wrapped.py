"""Forwards wrapped and unwrapped in any order with attaching and detaching: both do what they do
alone."""

import functools
from pathlib import Path
from random import Random

import torch

import dwindle
from tests.attaching import small
from tests.attaching.test_wrapped import mvp

RULES = ["training-free", "dim:log", "dydim:log,power(0.5)", "dim:boxcox(0.5)+renormalise"]


def trial(random: Random, folder: Path) -> int:
    build, rule = random.choice([mvp, small.bart]), random.choice(RULES)
    model, other = build(), build()
    given = small.source(seed=random.randrange(1000))
    plain = _logits(other, given)
    dwindle.attach(other, rule)
    ruled = _logits(other, given)
    modules = [layer.encoder_attn for layer in model.model.decoder.layers]
    calls: list[str] = []
    checks = 0
    for _ in range(random.randint(2, 6)):
        move = random.choice(["wrap", "attach", "detach"])
        if move == "wrap":
            _wrap(random.choice(modules), calls)
        elif move == "attach":
            dwindle.attach(model, rule)
        elif dwindle.handle_of(model) is not None:
            dwindle.detach(model)
        wrappers = sum(_depth(module) for module in modules)
        calls.clear()
        found = _logits(model, given)
        right = plain if dwindle.handle_of(model) is None else ruled
        assert torch.equal(found, right), (
            f"{type(model).__name__} {rule}: another output after {move}"
        )
        assert len(calls) == wrappers, (
            f"{len(calls)} of {wrappers} wrappers were called after {move}"
        )
        checks += 1
    return checks


def _wrap(module, calls: list[str]) -> None:
    inner = module.forward

    @functools.wraps(inner)
    def wrapper(*args, **kwargs):
        calls.append("called")
        return inner(*args, **kwargs)

    module.soak_depth = _depth(module) + 1
    module.forward = wrapper


def _depth(module) -> int:
    """How many wrappers were put around its forward."""
    return getattr(module, "soak_depth", 0)


def _logits(model, given) -> torch.Tensor:
    with torch.no_grad():
        return model(**given, decoder_input_ids=small.target(), use_cache=False).logits
