"""Ids, log-probabilities and best hypotheses of the originals' own code, given by ours on the
imported models, every one of them."""

import json
from pathlib import Path

import pytest
import torch

from dwindle.checkpoints.opening import opened
from dwindle.generation.generate import generate
from dwindle.generation.settings import DecodingSettings
from tests.checkpoints import test_presumm, test_see, test_top_down
from tests.originals import tiny

LENGTHS = {"beams": tiny.BEAMS, "max_length": tiny.LONGEST}
SEE = {**LENGTHS, "min_length": tiny.SHORTEST, "length_norm": "average", "cut": "last"}
PRESUMM = {
    **LENGTHS,
    "min_length": tiny.SHORTEST,
    "length_norm": "gnmt",
    "alpha": 0.95,
    "stopping": "top",
}
CAPTIONER = {**LENGTHS, "length_norm": "none", "stopping": "bound"}
FAIRSEQ = {**LENGTHS, "min_length": tiny.SHORTEST, "length_norm": "alpha"}


def golden(name):
    return json.loads((Path(__file__).parent / f"{name}.json").read_text())


def until(row, end):
    """A generated row up to its end."""
    return row[: row.index(end, 1) + 1] if end in row[1:] else row


def searched(found, sources, settings):
    """Best hypotheses of all sources, decoded as one padded batch."""
    batch = found.codec.collate([found.codec.encode(source) for source in sources])
    return generate(found.model, batch, settings, found.codec).tolist()


def see_outputs(folder, layout, coverage, seed, **how):
    """In See's numbers, where padding and unknown words change places with ours."""
    folder.mkdir()
    test_see.write(folder, layout, coverage, seed=seed, sharp=True)
    rows = searched(opened(folder), tiny.articles(seed), DecodingSettings(**SEE, **how))
    return [[{0: 1, 1: 0}.get(i, i) for i in until(row, 3)] for row in rows]


@pytest.mark.parametrize("coverage", [False, True])
@pytest.mark.parametrize(("name", "layout"), [("see", "tensorflow"), ("see_port", "port")])
def test_see_and_its_port(name, layout, coverage, tmp_path):
    told, plain = golden(name), 0
    for seed in tiny.SEEDS:
        right = [told[f"{coverage}/{seed}/{n}"][0] for n in range(tiny.EACH)]
        assert (
            see_outputs(tmp_path / str(seed), layout, coverage, seed, search=name.replace("_", "-"))
            == right
        )
        others = see_outputs(tmp_path / f"{seed}-plain", layout, coverage, seed)
        plain += sum(a == b for a, b in zip(others, right, strict=True))
    if (name, coverage) != ("see_port", False):  # which begins as in training
        assert plain < tiny.EACH * len(tiny.SEEDS)  # else the comparison would prove little


@pytest.mark.parametrize("coverage", [False, True])
def test_what_see_says_of_a_target(coverage, tmp_path):
    """The loss of training for one article: the mean of -log P over the words of its target."""
    told = golden("see")
    for seed in tiny.SEEDS:
        (tmp_path / str(seed)).mkdir()
        test_see.write(tmp_path / str(seed), "tensorflow", coverage, seed=seed, sharp=True)
        found = opened(tmp_path / str(seed))
        pairs = zip(tiny.articles(seed), tiny.targets(seed), strict=True)
        for n, (article, target) in enumerate(pairs):
            ids = [{0: 1, 1: 0}.get(i, i) for i in target]
            batch = found.codec.collate([found.codec.encode(article)])
            with torch.no_grad():
                read = torch.tensor([[test_see.START, *ids[:-1]]])
                rows = found.model(**batch, decoder_input_ids=read).logits[0].log_softmax(-1)
            loss = -rows[range(len(ids)), ids].mean()
            assert float(loss) == pytest.approx(told[f"{coverage}/{seed}/{n}"][2], abs=3e-5)


def test_presumm_as_it_reads_and_writes(tmp_path):
    told, blocked = golden("presumm"), {"block_ngrams": 3, "block_by": "words"}
    for seed in tiny.SEEDS:
        (tmp_path / str(seed)).mkdir()
        test_presumm.write(tmp_path / str(seed), tiny.presumm(seed), tiny.PIECES, longest=140)
        found = opened(tmp_path / str(seed))
        sources = []
        for n, (source, target) in enumerate(tiny.stories(seed)):
            ids, read, log_p, _, _ = told[f"{seed}/{n}"]
            row = found.codec.encode("\n".join(source), "\n".join(target))
            assert (row["input_ids"], row["labels"]) == (ids, read[1:])
            batch = found.codec.collate([{k: v for k, v in row.items() if k != "labels"}])
            with torch.no_grad():
                logits = found.model(**batch, decoder_input_ids=torch.tensor([read[:-1]])).logits
            rows = logits[0].log_softmax(-1)
            found_p = float(rows[range(len(read) - 1), read[1:]].sum())
            assert found_p == pytest.approx(log_p, abs=3e-4)
            sources.append("\n".join(source))
        for place, more in ((3, {}), (4, blocked)):
            rows = searched(found, sources, DecodingSettings(**PRESUMM, **more))
            for n, row in enumerate(rows):
                right = told[f"{seed}/{n}"][place]
                # all of its hypotheses were blocked: it takes whatever comes first, padding
                if 0 not in right:
                    assert until(row, test_presumm.END)[1:] == right


OURS = {theirs: own for own, theirs in enumerate(test_top_down.OURS) if theirs is not None}
"""Our number of each of the captioner's words."""


def target_log_p(model, batch, read, target):
    """Log-probability of each token of one target."""
    with torch.no_grad():
        logits = model(**batch, decoder_input_ids=torch.tensor([read])).logits
    return logits[0].log_softmax(-1)[range(len(target)), target].tolist()


def test_what_the_captioner_says_of_a_target(tmp_path):
    told = golden("captioner")
    for seed in tiny.SEEDS:
        test_top_down.write(tmp_path / str(seed), seed=seed, sharp=True)
        found = opened(tmp_path / str(seed))
        pairs = zip(tiny.images(seed), tiny.paragraphs(seed), strict=True)
        for n, (image, target) in enumerate(pairs):
            ids = [OURS[i] for i in target]
            batch = found.codec.collate([found.codec.encode(image.numpy())])
            said = target_log_p(found.model, batch, [2, *ids[:-1]], ids)
            assert said == pytest.approx(told[f"{seed}/{n}"], abs=3e-5)


@pytest.mark.parametrize(
    ("how", "more"),
    [
        ("beams", {"search": "captioner"}),
        ("greedy", {"beams": 1}),
        ("penalised", {"beams": 1, "soft_trigrams": 2.0}),
    ],
)
def test_the_captioner(how, more, tmp_path):
    told, plain = golden("captioner"), 0
    for seed in tiny.SEEDS:
        test_top_down.write(tmp_path / str(seed), seed=seed, sharp=True)
        found, images = opened(tmp_path / str(seed)), [image.numpy() for image in tiny.images(seed)]
        right = [[2, *(OURS[i] for i in told[f"{seed}/{n}/{how}"][0])] for n in range(tiny.EACH)]
        right = [until(row, 3) for row in right]
        rows = searched(found, images, DecodingSettings(**{**CAPTIONER, **more}))
        assert [until(row, 3) for row in rows] == right
        rows = searched(found, images, DecodingSettings(**CAPTIONER))
        plain += sum(until(a, 3) == b for a, b in zip(rows, right, strict=True))
    assert plain < tiny.EACH * len(tiny.SEEDS)


def fairseq_model(kind, seed, folder):
    """A model of fairseq, imported, with its sources and its targets."""
    kit, how = tiny.FAIRSEQ[kind]
    folder.mkdir()
    weights, _ = kit.write(folder, seed=seed, ending=tiny.ENDING, **how)
    rows, words = (len(weights[f"{part}.embed_tokens.weight"]) for part in ("encoder", "decoder"))
    sources = tiny.sentences(seed, rows, kind == "bart")
    return opened(folder).model, sources, tiny.sentences(100 + seed, words, kind == "bart")


@pytest.mark.parametrize("kind", tiny.FAIRSEQ)
def test_what_fairseq_says_of_a_target(kind, tmp_path):
    told = golden("fairseq")
    for seed in tiny.SEEDS:
        model, sources, targets = fairseq_model(kind, seed, tmp_path / str(seed))
        for n, (source, target) in enumerate(zip(sources, targets, strict=True)):
            batch = {"input_ids": torch.tensor([source])}
            said = target_log_p(model.double(), batch, [2, *target[:-1]], target)
            assert said == pytest.approx(told[f"{kind}/{seed}/{n}"], abs=3e-5)


@pytest.mark.parametrize("penalty", tiny.PENALTIES)
@pytest.mark.parametrize("kind", tiny.FAIRSEQ)
def test_fairseq(kind, penalty, tmp_path):
    """The hypotheses, and their scores: log-probability over length^penalty."""
    told, plain = golden("fairseq"), 0
    for seed in tiny.SEEDS:
        model, sources, _ = fairseq_model(kind, seed, tmp_path / str(seed))
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(i) for i in sources], True, 1)
        batch = {"input_ids": ids, "attention_mask": (ids != 1).long()}
        right = [told[f"{kind}/{seed}/{n}/{penalty}"] for n in range(tiny.EACH)]
        for search in ("fairseq", "none"):
            rows = generate(
                model, batch, DecodingSettings(**FAIRSEQ, alpha=penalty, search=search)
            ).tolist()
            rows = [until(row, 2) for row in rows]
            if search == "fairseq":
                assert rows == [[2, *best] for best, _ in right]
            else:
                plain += sum(a == [2, *best] for a, (best, _) in zip(rows, right, strict=True))
        for source, (best, score) in zip(sources, right, strict=True):
            batch_of_one = {"input_ids": torch.tensor([source])}
            said = sum(target_log_p(model, batch_of_one, [2, *best[:-1]], best))
            assert said / len(best) ** penalty == pytest.approx(score, abs=3e-4, rel=2e-5)
    assert plain < tiny.EACH * len(tiny.SEEDS)
