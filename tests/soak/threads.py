"""One attached model and many callers: every call gives what it gives alone."""

import sys
from pathlib import Path
from random import Random

import torch

import dwindle
from tests.attaching import small
from tests.attaching.test_threads import llama, together

RULES = [
    "training-free",
    "dim:log",
    "dydim:log,power(0.5)",
    "dim:log+share_heads",
    "dim:boxcox(0.5)+renormalise",
]


def trial(random: Random, folder: Path) -> int:
    build = random.choice([small.bart, small.t5, llama])
    model, rule = build(), random.choice(RULES)
    prompt = build is llama
    dwindle.attach(model, rule, **({"source": "prompt"} if prompt else {}))
    jobs = [_job(random, model, prompt) for _ in range(random.randint(2, 5))]
    alone = [job() for job in jobs]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        found = together(jobs)
    finally:
        sys.setswitchinterval(interval)
    for right, got in zip(alone, found, strict=True):
        assert got == [right] * 3, f"{type(model).__name__} {rule}: a caller got another's answer"
    return 3 * len(jobs)


def _job(random: Random, model, prompt: bool):
    lengths = tuple(random.randint(3, 9) for _ in range(random.randint(1, 3)))
    given = small.source(lengths, side="left" if prompt else "right", seed=random.randrange(1000))
    beams = 1 if prompt else random.choice([1, 2, 4])

    def job() -> list[list[int]]:
        settings = {
            "max_new_tokens": 6,
            "min_new_tokens": 6,
            "do_sample": False,
            "num_beams": beams,
        }
        with torch.no_grad():
            return model.generate(**given, **settings).tolist()

    return job
