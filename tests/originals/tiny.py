"""The tiny models and sources of the golden files: sharp, random, and the same on every machine.

``make.py`` shows them to the originals' code, the tests to ours.
"""

import random

from tests.checkpoints import test_fairseq_bart, test_fairseq_transformer, test_presumm
from tests.checkpoints import test_see as see
from tests.checkpoints.kit import Draw
from tests.checkpoints.test_top_down import D, V

SEEDS = (11, 12, 13)
EACH = 10
"""Sources for each seed."""
BEAMS = 3
SHORTEST, LONGEST = 3, 12
TARGET = 5
"""Words of a target for a pointer-generator, its end among them."""
PIECES = [*test_presumm.WORDS, "u", "##.", "dog"]
POSITIONS = 64
ENDING = 0.5
"""How much models of fairseq lean to an end: some outputs reach the greatest length."""
FAIRSEQ = {
    "transformer": (test_fairseq_transformer, {}),
    "norms-first": (
        test_fairseq_transformer,
        {"vocabularies": "untied", "year": 2024, **test_fairseq_transformer.FIRST},
    ),
    "norms-first-old": (
        test_fairseq_transformer,
        {
            **{"vocabularies": "untied", "versions": (None, None)},
            **{"normless": test_fairseq_transformer.BOTH, **test_fairseq_transformer.FIRST},
        },
    ),
    "bart": (test_fairseq_bart, {}),
}
"""Models of fairseq, each a kit and its settings: a Transformer with one vocabulary in the layout
of 2018, one with two vocabularies and norms before each part in today's, one like it from before
August 2018, which has no version and no norm after its last layers, and a BART."""
PENALTIES = (0.0, 0.6, 2.0)
"""Length penalties of fairseq's searches."""
CAPTIONING = ("beams", "greedy", "penalised")
"""Searches of the captioner; ``penalised`` is greedy with its penalty for repeated trigrams."""


def articles(seed):
    """Texts for a pointer-generator, some words outside its vocabulary."""
    draw = random.Random(seed)
    words = [*see.WORDS, "zork", "ork"]
    return [" ".join(draw.choices(words, k=draw.randint(4, 9))) for _ in range(EACH)]


def targets(seed):
    """A target for each article, in See's numbers, some of its words outside the vocabulary."""
    draw, made = random.Random(100 + seed), []
    for article in articles(seed):
        words = sorted(set(see.numbers(article)[1]))
        made.append([*draw.choices([*words, 4, 5, 6], k=TARGET - 1), see.STOP])
    return made


def stories(seed):
    """Sentences of a source and of a target for PreSumm; the vocabulary lacks some of the words."""
    draw = random.Random(seed)
    words = ["a", "cat", "cats", "sat", ".", "u.s.", "dog", "sats", "zork", "sat,"]

    def text():
        return [
            " ".join(draw.choices(words, k=draw.randint(2, 5))) for _ in range(draw.randint(1, 3))
        ]

    return [(text(), text()) for _ in range(EACH)]


def presumm(seed):
    """Weights of a PreSumm that rarely ends and never writes padding, as a trained one would."""
    made = test_presumm.weights(Draw(seed), POSITIONS, PIECES)
    made["generator.0.bias"][test_presumm.END] -= 1
    made["generator.0.bias"][0] -= 30
    return made


def images(seed):
    """Regions (S, D) for a captioner."""
    return [Draw(100 * seed + n)(4 + n % 4, D, by=2.0) for n in range(EACH)]


def paragraphs(seed):
    """A target for each image, in the captioner's numbers, its end among them."""
    draw = random.Random(seed)
    return [[*draw.choices(range(1, V), k=draw.randint(3, 8)), 0] for _ in range(EACH)]


def sentences(seed, rows, bart=False):
    """Ids for a model of fairseq that has ``rows`` of them, the end among them."""
    draw = random.Random(seed)
    made = [[*draw.choices(range(4, rows), k=draw.randint(2, 8)), 2] for _ in range(EACH)]
    return [[0, *ids] for ids in made] if bart else made
