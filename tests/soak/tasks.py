"""Spans and records in tasks, generators and threads that take turns: every caller gets what it
gets alone."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import torch
from torch import Tensor

import dwindle
from tests.attaching.prompts import batch
from tests.attaching.test_threads import llama

RULES = ["dim:log", "dydim:log,power(0.5)", "dim:boxcox(0.5)+renormalise"]


def trial(random: Random, folder: Path) -> int:
    model = llama()
    dwindle.attach(model, random.choice(RULES), source="prompt")
    ids, _ = batch()
    masks = [torch.rand(ids.shape) < 0.4 for _ in range(random.randint(2, 5))]
    for mask in masks:
        mask[:, -4:] = False
        mask[:, 2] = True

    def logits() -> Tensor:
        with torch.no_grad():
            return model(ids, use_cache=False).logits

    right = []
    for mask in masks:
        with dwindle.source_span(model, mask):
            right.append(logits())
    rounds = random.randint(1, 4)
    found = random.choice([_tasks, _generators])(random, model, masks, logits, rounds)
    for mine, results in zip(right, found, strict=True):
        assert len(results) == rounds
        assert all(torch.equal(each, mine) for each in results), "a caller got another's span"
    scopes = dwindle.handle_of(model).scopes
    assert scopes.span is None
    assert not scopes.here.unclear
    return rounds * len(masks)


def _tasks(
    random: Random, model, masks: list[Tensor], logits: Callable, rounds: int
) -> list[list[Tensor]]:
    async def task(mask: Tensor, ways: list[bool]) -> list[Tensor]:
        results = []
        with dwindle.source_span(model, mask):
            for in_thread in ways:
                await asyncio.sleep(0)
                results.append(await asyncio.to_thread(logits) if in_thread else logits())
        return results

    async def main() -> list[list[Tensor]]:
        return await asyncio.gather(
            *(task(m, [random.random() < 0.3 for _ in range(rounds)]) for m in masks)
        )

    return asyncio.run(main())


def _generators(
    random: Random, model, masks: list[Tensor], logits: Callable, rounds: int
) -> list[list[Tensor]]:
    def spanned(mask: Tensor) -> Iterator[Tensor]:
        with dwindle.source_span(model, mask):
            for _ in range(rounds):
                yield logits()

    running = [spanned(mask) for mask in masks]
    found: list[list[Tensor]] = [[] for _ in masks]
    turns = [i for i in range(len(masks)) for _ in range(rounds)]
    random.shuffle(turns)
    for turn in turns:
        found[turn].append(next(running[turn]))
    random.shuffle(running)
    for each in running:
        each.close()
    return found
