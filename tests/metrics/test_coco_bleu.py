"""BLEU-1 to -4 against the COCO tool."""

import numpy as np
import pytest

from dwindle.metrics import coco_bleu
from dwindle.metrics.score import reduce
from dwindle.runfiles.outputs import Item, outputs
from tests.metrics.test_cider import HYPOTHESES, REFERENCES

# pycocoevalcap, BleuScorer(n=4).compute_score(option="closest") on the texts of golden/cider.json:
# of all, and of the first text alone.
CORPUS = [0.6258503401352029, 0.4937877713903959, 0.4265586754634027, 0.38840724826216294]
FIRST = [0.80851063828067, 0.546623645475461, 0.4049376002973377, 0.33147471529675876]


def test_equals_the_coco_tool():
    items = [
        Item(str(i), h, tuple(r))
        for i, (h, r) in enumerate(zip(HYPOTHESES, REFERENCES, strict=True))
    ]
    metrics = coco_bleu.metrics("spaces")
    found = reduce(outputs("o", items), metrics)
    assert [found.value(m) for m in metrics] == pytest.approx([100 * x for x in CORPUS], abs=1e-9)
    assert [found.values(m)[0] for m in metrics] == pytest.approx(
        [100 * x for x in FIRST], abs=1e-9
    )


def test_words_need_no_tokenised_text():
    made = outputs("o", [Item("1", "A man, sitting.", ("a man sitting .",))])
    metrics = coco_bleu.metrics()
    values = [reduce(made, metrics).value(m) for m in metrics]
    assert values[:3] == pytest.approx([100] * 3)
    assert np.isfinite(values).all()
    with pytest.raises(ValueError, match="coco-bleu has no option 'x'"):
        coco_bleu.metrics("x")
