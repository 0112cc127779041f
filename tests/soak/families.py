"""Attached families against themselves: with and without a cache, batch against single, and after
detaching."""

from pathlib import Path
from random import Random

import torch

import dwindle
from dwindle.attaching.families import FAMILIES
from tests.attaching.zoo import ZOO

RULES = [
    "dim:log",
    "dydim:log,power(0.5)",
    "dim:boxcox(0.5)+renormalise",
    "dim:power(0.65)+share_heads",
    "temporal",
]
CHECKED = {f.name: f.checked for f in FAMILIES}


def trial(random: Random, folder: Path) -> int:
    torch.manual_seed(random.getrandbits(31))
    family = random.choice([each for each in ZOO if "rows" in CHECKED[each.name]])
    rule = random.choice(RULES)
    model = family.build()
    plain = family.logits(model)
    dwindle.attach(model, rule)
    at_once = family.logits(model)
    cuts, rows = [], plain.shape[1]
    while sum(cuts) < rows:
        cuts.append(random.randint(1, rows - sum(cuts)))
    most = float(at_once.abs().max())
    torch.testing.assert_close(family.logits(model, tuple(cuts)), at_once, rtol=0, atol=2e-5 * most)
    checks = 2
    if "generate" in CHECKED[family.name]:
        beams = random.choice([1, 3, 4])
        with_cache, without = (
            family.generated(model, beams, cache=cache) for cache in (True, False)
        )
        assert torch.equal(with_cache[0], without[0]), (
            f"{family.name} {rule} {beams} beams: another output with a cache"
        )
        checks += 1
    dwindle.detach(model)
    assert torch.equal(family.logits(model), plain), f"{family.name}: not the model that it was"
    return checks
