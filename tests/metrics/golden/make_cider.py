"""Make cider.json: made-up paragraphs scored by the COCO tool. Needs `pip install
pycocoevalcap==1.2`.

python tests/metrics/golden/make_cider.py
"""

import json
import random
from pathlib import Path

from pycocoevalcap.cider.cider import Cider

WORDS = """a the red big man dog street on in with is standing sitting two trees behind him there
are cars and""".split()  # noqa: SIM905


def paragraph(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, weights=range(len(WORDS), 0, -1), k=rng.randint(4, 40)))


def main() -> None:
    rng = random.Random(11)
    references = [[paragraph(rng) for _ in range(rng.choice([1, 1, 2, 3]))] for _ in range(25)]
    hypotheses = [
        " ".join(rng.choice(r).split()[: rng.randint(2, 30)] + paragraph(rng).split())
        for r in references
    ]
    hypotheses[3], hypotheses[4], hypotheses[5] = "", references[4][0], "man"
    ids = range(len(references))
    _, scores = Cider().compute_score(
        dict(enumerate(references)), {i: [hypotheses[i]] for i in ids}
    )
    golden = {
        "origin": "pycocoevalcap 1.2, Cider().compute_score",
        "references": references,
        "hypotheses": hypotheses,
        "scores": scores.tolist(),
    }
    path = Path(__file__).parent / "cider.json"
    path.write_text(
        json.dumps(golden, separators=(",", ":")).replace('","', '",\n"') + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
