"""MoverScore on a tiny random encoder: laws, and a twin that follows the definition word by
word."""

import json
import re
from pathlib import Path

import numpy as np
import ot
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoModel, BertConfig, BertModel, PreTrainedTokenizerFast

from dwindle.metrics import moverscore
from dwindle.metrics.score import reduce
from dwindle.runfiles.outputs import Item, outputs
from tests.metrics import movers

WORDS = [
    "the",
    "mayor",
    "closed",
    "bridge",
    "ferry",
    "went",
    "child",
    "##ren",
    "##s",
    ".",
    ",",
    "a",
]
GOLDEN = Path(__file__).parent / "golden" / "mover.json"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A folder with a BERT of random weights and a WordPiece tokenizer."""
    folder = tmp_path_factory.mktemp("encoder")
    vocabulary = {piece: i for i, piece in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=32,
    )
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=6,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    BertModel(config).save_pretrained(folder)
    return str(folder)


TEXTS = [
    ("the mayor closed the bridge .", ("the mayor closed a ferry .",)),
    ("children went , the ferry closed", ("the ferry went .", "child closed the bridge")),
    ("a bridge", ("a bridge",)),
    ("", ("the mayor",)),
    ("the the the mayor the the ferries", ("mayors",)),
]


def statistics(encoder, texts=TEXTS, option=""):
    items = [Item(str(i), h, r) for i, (h, r) in enumerate(texts)]
    metrics = moverscore.metrics(encoder + option)
    return metrics, reduce(outputs("o", items), metrics)


def twin(encoder, texts, n, stop=()):
    """One pair at a time, nothing shared, no batch. idf as the authors' get_idf_dict: every text
    counts."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(encoder)
    model = AutoModel.from_pretrained(encoder).eval()
    pairs = [(i, h, r) for i, (h, rs) in enumerate(texts) if h for r in rs]

    def idf(side):
        documents = [tokenizer(t)["input_ids"] for t in side]
        return lambda piece: np.log((len(documents) + 1) / (sum(piece in d for d in documents) + 1))

    def grams(text, weight):
        ids = tokenizer(text)["input_ids"]
        pieces = tokenizer.convert_ids_to_tokens(ids)
        with torch.no_grad():
            hidden = model(torch.tensor([ids]), output_hidden_states=True).hidden_states[-5:]
        layers = np.stack([h[0].double().numpy() for h in hidden])
        layers /= np.linalg.norm(layers, axis=-1, keepdims=True)
        vectors = np.concatenate([layers.min(0), layers.mean(0), layers.max(0)], -1)
        kept = [
            k for k, p in enumerate(pieces) if "##" not in p and p not in ".," and p not in stop
        ]
        windows = [kept[k : k + n] for k in range(len(kept) - n + 1)]
        mass, points = [], []
        for window in windows:
            weights = np.array([weight(ids[k]) for k in window])
            mass.append(weights.sum())
            shares = (
                weights / weights.sum() if weights.sum() else np.full(len(window), 1 / len(window))
            )
            point = shares @ vectors[window]
            points.append(point / np.linalg.norm(point))
        return np.array(points), np.array(mass) / sum(mass)

    sides = idf([h for h, _ in texts]), idf([r for _, rs in texts for r in rs])
    best = {}
    for i, h, r in pairs:
        (x, a), (y, b) = grams(h, sides[0]), grams(r, sides[1])
        costs = ((x[:, None] - y[None]) ** 2).sum(-1)
        best[i] = max(best.get(i, -np.inf), 100 * (1 - ot.emd2(a, b, costs)))
    return [best.get(i, 0.0) for i in range(len(texts))]


def test_equals_its_slow_twin(encoder):
    metrics, found = statistics(encoder)
    for n, metric in enumerate(metrics, 1):
        np.testing.assert_allclose(found.values(metric), twin(encoder, TEXTS, n), atol=1e-3)


@pytest.mark.parametrize("stop", [(), movers.STOP])
def test_equals_the_authors_code(stop, tmp_path):
    """Values of golden/make_mover.py. A text in which no word counts has 0 here, and a penalty of
    the solver there."""
    movers.write(tmp_path)
    (tmp_path / "stop.txt").write_text(" ".join(stop))
    told, pairs = json.loads(GOLDEN.read_text())["values"], movers.pairs()
    metrics, found = statistics(
        str(tmp_path), [(h, (r,)) for h, r in pairs], f"+stop={tmp_path}/stop.txt" if stop else ""
    )
    words = [[set(re.findall(r"\w+", text.lower())) - set(stop) for text in pair] for pair in pairs]
    spoken = np.array([all(both) for both in words])
    assert spoken.sum() > 110
    for n, metric in enumerate(metrics, 1):
        right = np.array(told[f"mover{n}{'+stop' if stop else ''}"])
        np.testing.assert_allclose(found.values(metric)[spoken], right[spoken], atol=2e-3)
        assert not found.values(metric)[~spoken].any()


def test_repeated_texts_count_as_often_as_they_are_there(encoder):
    repeated = [*TEXTS, TEXTS[0], TEXTS[0]]
    metrics, found = statistics(encoder, repeated)
    for n, metric in enumerate(metrics, 1):
        np.testing.assert_allclose(found.values(metric), twin(encoder, repeated, n), atol=1e-3)
        assert abs(found.values(metric)[0] - statistics(encoder)[1].values(metric)[0]) > 1e-3


def test_stop_words_are_left_out(encoder, tmp_path):
    file = tmp_path / "stop.txt"
    file.write_text("the a")
    metrics, found = statistics(encoder, TEXTS[:2], f"+stop={file}")
    for n, metric in enumerate(metrics, 1):
        np.testing.assert_allclose(
            found.values(metric), twin(encoder, TEXTS[:2], n, ("the", "a")), atol=1e-3
        )
    assert "|stop:2-words|" in str(metrics[0].signature)
    assert metrics[0].name.endswith("+stop=stop.txt")
    with pytest.raises(ValueError, match="stop words cannot be read"):
        moverscore.metrics(f"{encoder}+stop={tmp_path / 'none'}")


def test_the_same_text_scores_100_and_nothing_more(encoder):
    same = [(references[0], references[:1]) for _, references in TEXTS]
    metrics, found = statistics(encoder, same)
    for metric in metrics:
        np.testing.assert_allclose(found.values(metric), 100, atol=1e-3)
    for metric, values in ((m, statistics(encoder)[1].values(m)) for m in metrics):
        assert values[3] == 0, metric.name  # the empty hypothesis
        assert values.max() <= 100 + 1e-6


def test_batches_change_nothing(encoder, monkeypatch):
    metrics, whole = statistics(encoder)
    monkeypatch.setattr(moverscore, "_BATCH", 1)
    _, single = statistics(encoder)
    for metric in metrics:
        np.testing.assert_allclose(whole.values(metric), single.values(metric), atol=1e-3)


def test_one_item_only_and_long_texts(encoder):
    metrics, found = statistics(encoder, [("the mayor " * 40, ("the bridge " * 40,))])
    assert all(
        np.isfinite(found.value(metric)) and found.value(metric) <= 100 for metric in metrics
    )


def test_signature_names_the_encoder_and_errors_say_what_to_do(encoder, tmp_path):
    assert f"|encoder:{encoder}|" in str(moverscore.metrics(encoder)[0].signature)
    with pytest.raises(ValueError, match="needs an encoder: name one as mover:ENCODER"):
        moverscore.metrics("")
    with pytest.raises(ValueError, match="no encoder can be loaded from") as caught:
        statistics(str(tmp_path / "nothing"))
    assert "\n" not in str(caught.value)
