"""CIDEr against the COCO tool's golden values, and a twin by definition."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dwindle.metrics import cider
from dwindle.metrics.cider import CiderScorer
from dwindle.metrics.score import reduce
from dwindle.runfiles.outputs import Item, outputs

GOLDEN = json.loads((Path(__file__).parent / "golden" / "cider.json").read_text(encoding="utf-8"))
REFERENCES, HYPOTHESES = GOLDEN["references"], GOLDEN["hypotheses"]


def test_equals_the_coco_tool():
    items = [
        Item(str(i), h, tuple(r))
        for i, (h, r) in enumerate(zip(HYPOTHESES, REFERENCES, strict=True))
    ]
    for metric in (*cider.metrics("spaces"), *cider.metrics_d("spaces")):
        statistics = reduce(outputs("o", items), [metric])
        np.testing.assert_allclose(statistics.values(metric), GOLDEN["scores"], atol=1e-9, rtol=0)
        assert statistics.value(metric) == pytest.approx(np.mean(GOLDEN["scores"]), abs=1e-9)


def test_the_reusable_scorer_gives_the_same_again_and_again():
    scorer = CiderScorer(REFERENCES)
    for _ in range(2):
        np.testing.assert_allclose(
            scorer.rewards(HYPOTHESES, REFERENCES), GOLDEN["scores"], atol=1e-9, rtol=0
        )
    # A text never seen is rewarded against any references, and changes nothing for the others.
    scorer.reward("quite other words", ["never seen words either"])
    assert scorer.reward(HYPOTHESES[0], REFERENCES[0]) == pytest.approx(
        GOLDEN["scores"][0], abs=1e-9
    )
    assert scorer.reward("x", []) == 0
    with pytest.raises(ValueError, match="needs documents"):
        CiderScorer([])


def plain_twin(hypothesis, references, documents):
    """Vedantam et al. (2015): mean over n = 1..4 and references of the cosine of tf-idf vectors,
    times 10."""
    total = 0.0
    for n in range(1, 5):

        def grams(text, n=n):
            tokens = text.split()
            return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))

        def vector(text):
            weights = {}
            for gram, count in grams(text).items():
                df = sum(any(gram in grams(r) for r in refs) for refs in documents)
                weights[gram] = count * (math.log(len(documents)) - math.log(max(df, 1)))
            return weights

        def norm(v):
            return math.sqrt(sum(x * x for x in v.values()))

        own = vector(hypothesis)
        for reference in references:
            other = vector(reference)
            if norm(own) and norm(other):
                total += sum(own[g] * other.get(g, 0) for g in own) / (norm(own) * norm(other))
    return 10 * total / 4 / len(references)


def test_plain_cider_follows_its_definition():
    scorer = CiderScorer(REFERENCES, plain=True)
    for hypothesis, references in list(zip(HYPOTHESES, REFERENCES, strict=True))[:8]:
        assert scorer.reward(hypothesis, references) == pytest.approx(
            plain_twin(hypothesis, references, REFERENCES)
        )


@settings(max_examples=50)
@given(
    st.text(),
    st.lists(st.lists(st.text(), min_size=1, max_size=2), min_size=1, max_size=3),
    st.booleans(),
)
def test_any_text_is_rewarded_within_0_and_10(hypothesis, documents, plain):
    for unicode_words in (False, True):
        reward = CiderScorer(documents, plain, unicode_words).reward(hypothesis, documents[0])
        assert -1e-9 <= reward <= 10 + 1e-9


def test_words_option_needs_no_tokenised_text():
    documents = [["A man."], ["Two dogs."], ["Trees"]]
    assert CiderScorer(documents).reward("a man", ["A man."]) == 0
    assert CiderScorer(documents, unicode_words=True).reward("a man", ["A man."]) > 0
    with pytest.raises(ValueError, match="cider-d has no option 'plain'"):
        cider.metrics_d("plain")


def test_live_tool_if_it_is_there():
    tool = pytest.importorskip("pycocoevalcap.cider.cider")
    ids = range(len(REFERENCES))
    _, scores = tool.Cider().compute_score(
        dict(enumerate(REFERENCES)), {i: [HYPOTHESES[i]] for i in ids}
    )
    np.testing.assert_allclose(
        CiderScorer(REFERENCES).rewards(HYPOTHESES, REFERENCES), scores, atol=1e-9
    )
