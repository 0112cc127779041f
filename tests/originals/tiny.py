"""The tiny models and sources of the golden files: sharp, random, and the same on every machine.

``make.py`` shows them to the originals' code, the tests to ours.
"""

import random

from tests.checkpoints import test_see as see
from tests.checkpoints.kit import Draw
from tests.checkpoints.test_top_down import D

SEEDS = (11, 12, 13)
EACH = 10
"""Sources for each seed."""
BEAMS = 3
SHORTEST, LONGEST = 3, 12
ENDING = 0.5
"""How much models of fairseq lean to an end: some outputs reach the greatest length."""


def articles(seed):
    """Texts for a pointer-generator, some words outside its vocabulary."""
    draw = random.Random(seed)
    words = [*see.WORDS, "zork", "ork"]
    return [" ".join(draw.choices(words, k=draw.randint(4, 9))) for _ in range(EACH)]


def images(seed):
    """Regions (S, D) for a captioner."""
    return [Draw(100 * seed + n)(4 + n % 4, D, by=2.0) for n in range(EACH)]


def sentences(seed, rows, bart=False):
    """Ids for a model of fairseq that has ``rows`` of them, the end among them."""
    draw = random.Random(seed)
    made = [[*draw.choices(range(4, rows), k=draw.randint(2, 8)), 2] for _ in range(EACH)]
    return [[0, *ids] for ids in made] if bart else made
