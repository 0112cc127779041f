"""Made-up systems for the tests of metrics."""

import random

from dwindle.runfiles.outputs import Item, Outputs, outputs

WORDS = """the a of mayor bridge said says closed children went ferry river council vote money
better best offer engineers found cracks supports repairs running ran run-down 1964 café naïve
agreement hurt""".split()  # noqa: SIM905


def text(rng: random.Random, sentences: int, words: int = 9) -> str:
    return "\n".join(
        " ".join(rng.choices(WORDS, k=rng.randint(1, words))) + " ." for _ in range(sentences)
    )


def system(
    items: int = 30, seed: int = 0, references: int = 1, quality: float = 0.3, name: str = "made"
) -> Outputs:
    """Items whose references depend only on their number, so that systems of different seeds are
    comparable.

    A word of the reference is kept with probability ``quality``.
    """
    made = []
    rng = random.Random(f"hypotheses {seed}")
    for i in range(items):
        fixed = random.Random(f"references {i}")
        source = text(fixed, 8)
        truth = tuple(text(fixed, 3) for _ in range(references))
        kept = [w if rng.random() < quality else rng.choice(WORDS) for w in truth[0].split(" ")]
        made.append(Item(str(i), " ".join(kept), truth, source, line=i + 1))
    return outputs(name, made)
