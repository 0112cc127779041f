"""Compiled attached models: one pass, step by step and generated, against themselves uncompiled."""

from pathlib import Path
from random import Random

import torch
from transformers import DynamicCache, EncoderDecoderCache

import dwindle
from tests.attaching import small
from tests.attaching.prompts import batch, made

RULES = [
    "training-free",
    "dim:log",
    "dydim:log,power(0.5)",
    "dim:boxcox(0.5)+renormalise",
    "dim:log+share_heads",
]


def trial(random: Random, folder: Path) -> int:
    torch._dynamo.reset()
    rule = random.choice(RULES)
    with torch.no_grad():
        found, right = (_prompt if random.random() < 0.5 else _encoder)(random, rule)
    torch.testing.assert_close(found, right, rtol=0, atol=1e-4 * float(right.abs().max()))
    return 1


def _encoder(random: Random, rule: str) -> tuple[torch.Tensor, torch.Tensor]:
    model = small.bart(random.randrange(1000), encoder_layers=1, decoder_layers=1)
    dwindle.attach(model, rule)
    given = small.source(tuple(random.randint(3, 9) for _ in range(2)), seed=random.randrange(1000))
    rows = small.target(6)
    right = model(**given, decoder_input_ids=rows, use_cache=False).logits
    compiled = torch.compile(model, backend="aot_eager", fullgraph=random.random() < 0.5)
    if random.random() < 0.5:
        return compiled(**given, decoder_input_ids=rows, use_cache=False).logits, right
    cache = EncoderDecoderCache(
        DynamicCache(config=model.config), DynamicCache(config=model.config)
    )
    cut = random.randint(1, 5)
    first = model(**given, decoder_input_ids=rows[:, :cut], past_key_values=cache).logits
    rest = [
        compiled(**given, decoder_input_ids=rows[:, t : t + 1], past_key_values=cache).logits
        for t in range(cut, 6)
    ]
    return torch.cat([first, *rest], dim=1), right


def _prompt(random: Random, rule: str) -> tuple[torch.Tensor, torch.Tensor]:
    model, (ids, mask) = made("Llama", torch.float32, num_hidden_layers=1), batch()
    dwindle.attach(model, rule, source="prompt")
    compiled = torch.compile(model, backend="aot_eager", fullgraph=random.random() < 0.5)
    with dwindle.source_span(model, mask):
        right = model(ids, use_cache=False).logits
        if random.random() < 0.5:
            return compiled(ids, use_cache=False).logits, right
        cache, cut = DynamicCache(config=model.config), random.randint(1, 12)
        first = model(ids[:, :cut], past_key_values=cache).logits
        rest = [
            compiled(ids[:, t : t + 1], past_key_values=cache).logits
            for t in range(cut, ids.shape[1])
        ]
    return torch.cat([first, *rest], dim=1), right
