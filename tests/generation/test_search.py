"""The library's search with our score against the slow twin, source by source."""

import math
from functools import cache
from typing import get_args

import pytest
import torch

from dwindle.attaching.handle import attach, handle_of
from dwindle.generation.generate import generate
from dwindle.generation.search import highest, norm, penalty
from dwindle.generation.settings import DecodingSettings, LengthNorm
from tests.generation import slow

CASES = {
    "greedy": {"beams": 1},
    "none": {"length_norm": "none"},
    "average": {"length_norm": "average"},
    "alpha": {"alpha": 1.5},
    "gnmt": {"length_norm": "gnmt", "alpha": 0.9},
    "late": {"stopping": "bound", "alpha": 1.5},
    "late without norm": {"stopping": "bound", "length_norm": "none"},
    "lengths": {"min_length": 4, "max_length": 7},
    "top": {"stopping": "top"},
    "top, gnmt": {"stopping": "top", "length_norm": "gnmt", "alpha": 0.9, "min_length": 2},
    "cut last": {"cut": "last", "max_length": 4, "beams": 4},
    "blocked": {"block_ngrams": 2, "min_length": 6},
    "blocked, longer": {"block_ngrams": 1, "min_length": 7},
    "blocked words": {"block_ngrams": 4, "block_by": "words", "min_length": 6},
    "soft": {"soft_trigrams": 4.0, "min_length": 8, "max_length": 10},
    "repetition": {"repetition_penalty": 1.7},
    "repetition, greedy": {"repetition_penalty": 1.7, "beams": 1},
    "gnmt coverage": {"coverage_penalty": "gnmt", "beta": 0.4},
    "gnmt coverage, late": {"coverage_penalty": "gnmt", "beta": 0.4, "stopping": "bound"},
    "gnmt coverage, stepwise": {"coverage_penalty": "gnmt", "beta": 0.4, "stepwise": True},
    "gehrmann": {"coverage_penalty": "gehrmann", "beta": 3.0},
    "gehrmann, stepwise": {"coverage_penalty": "gehrmann", "beta": 3.0, "stepwise": True},
    "all": {
        "coverage_penalty": "gehrmann",
        "beta": 1.0,
        "stepwise": True,
        "length_norm": "gnmt",
        "alpha": 0.8,
        "stopping": "bound",
        "block_ngrams": 3,
        "soft_trigrams": 1.0,
        "min_length": 3,
    },
}


def settings_of(case):
    return DecodingSettings(**{"beams": 3, "max_length": 8, **case})


def outputs(model, batch, settings):
    """The generated sequences without what follows their end."""
    rows = generate(model, batch, settings, slow.Codec()).tolist()
    return [row[: row.index(slow.END, 1) + 1] if slow.END in row[1:] else row for row in rows]


@cache
def seeded(seed):
    return slow.model(seed), slow.batch(seed=seed)


@cache
def found(settings, seed):
    """The outputs of a seed's model and batch: two tests ask for them."""
    return outputs(*seeded(seed), settings)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_equals_the_slow_twin(name, seed):
    """The batch is padded, the twin reads one source at a time."""
    settings = settings_of(CASES[name])
    model, batch = seeded(seed)
    for row, ids, mask in zip(
        found(settings, seed), batch["input_ids"], batch["attention_mask"], strict=True
    ):
        assert row == slow.best(slow.looking(model, ids[mask.bool()]), settings)


def test_each_case_changes_an_output():
    """Else its comparison with the twin would prove little."""
    simpler = {
        "alpha": {},
        "top, gnmt": CASES["gnmt"],
        "cut last": {"max_length": 4, "beams": 4},
        "blocked words": {"min_length": 6},
        "gnmt coverage, late": CASES["gnmt coverage"],
        "gnmt coverage, stepwise": CASES["gnmt coverage"],
        "gehrmann, stepwise": CASES["gehrmann"],
        "repetition, greedy": CASES["greedy"],
    }
    for name, case in CASES.items():
        whole, less = settings_of(case), settings_of(simpler.get(name, {}))
        assert any(found(whole, seed) != found(less, seed) for seed in range(1, 6)), name


def test_lengths_vary():
    lengths = {len(row) for seed in (1, 2) for row in found(settings_of({}), seed)}
    assert len(lengths) >= 4


@pytest.mark.parametrize("length", [1, 2, 7])
def test_what_length_counts(length):
    """Generated tokens with the end token; See's average counts the start token too."""
    norms = {
        form: norm(DecodingSettings(length_norm=form, alpha=1.5), length)
        for form in get_args(LengthNorm)
    }
    assert norms == {
        "none": 1,
        "average": length + 1,
        "alpha": pytest.approx(length**1.5),
        "gnmt": pytest.approx(((5 + length) / 6) ** 1.5),
    }


def test_penalties_by_hand():
    coverage = torch.tensor([[0.5, 2.0, 1.0, 9.0], [0.0, 0.0, 0.0, 0.0]])
    real = torch.tensor([[True, True, True, False], [True, False, False, False]])
    wu = penalty(DecodingSettings(coverage_penalty="gnmt", beta=0.2), coverage, real)
    assert wu[0] == pytest.approx(0.2 * math.log(0.5))
    assert torch.isfinite(wu[1])
    assert wu[1] < -15
    gehrmann = penalty(DecodingSettings(coverage_penalty="gehrmann", beta=10.0), coverage, real)
    assert gehrmann.tolist() == [-10.0, 0.0]


def test_the_checkpoint_has_no_say():
    """What a checkpoint would do by itself is put aside while decoding, and is there again
    afterwards."""
    model, batch = slow.model(1), slow.batch()
    expected = outputs(model, batch, settings_of({}))
    model.generation_config.update(
        min_length=6, no_repeat_ngram_size=2, num_beams=5, length_penalty=3.0, max_length=9
    )
    before = model.generation_config.to_dict()
    model.train()
    assert outputs(model, batch, settings_of({})) == expected
    assert model.generation_config.to_dict() == before
    assert model.training
    assert handle_of(model) is None


def test_blocking_of_words_needs_a_codec():
    with pytest.raises(ValueError, match="pass the model's codec"):
        generate(slow.model(), slow.batch(), settings_of(CASES["blocked words"]))


@pytest.mark.parametrize(
    ("search", "own"), [("see", "pointer-generator"), ("captioner", "top-down")]
)
def test_the_search_of_another_model(search, own):
    settings = DecodingSettings(search=search, stopping="bound", max_length=9)
    with pytest.raises(ValueError, match=f"search {search} is for a {own}, and this is a BartFor"):
        generate(slow.model(), slow.batch(), settings)


def test_a_rule_stays_in_the_search():
    """With a rule the search ranks by the attention before the rule, and writes what the rule makes
    of it."""
    model, batch = slow.model(1), slow.batch()
    settings = settings_of(CASES["gehrmann"])
    plain = outputs(model, batch, settings)
    handle = attach(model, "dim:log")
    ruled = outputs(model, batch, settings)
    assert handle_of(model) is handle
    assert ruled != plain
    handle.detach()
    with attach(model, "plain"):
        assert outputs(model, batch, settings) == plain


def test_too_long_for_the_positions():
    with pytest.raises(ValueError, match="max_length 33 is more than the 32 positions"):
        generate(slow.model(), slow.batch(), DecodingSettings(max_length=33))


BAD = {
    "beams": ({"beams": 0}, "beams is 0"),
    "lengths": ({"min_length": 8, "max_length": 8}, "leaves no room"),
    "norm": ({"length_norm": "wu"}, "choose one of none, average, alpha, gnmt"),
    "alpha": ({"alpha": float("nan")}, "alpha is nan"),
    "repetition": ({"repetition_penalty": 0}, "above 0"),
    "no weight": ({"coverage_penalty": "gnmt"}, "give beta"),
    "no penalty": ({"beta": 1.0}, "belong to a coverage_penalty"),
    "stopping": ({"stopping": "late"}, "choose one of beams, bound, top"),
    "cut": ({"cut": "first"}, "choose one of ranked, last"),
    "words": ({"block_by": "words"}, "give block_ngrams"),
    "greedy words": ({"block_by": "words", "block_ngrams": 3, "beams": 1}, "more beams"),
    "search": ({"search": "google"}, "choose one of none, see, see-port, captioner, fairseq"),
    "captioner": ({"search": "captioner"}, "give stopping: bound"),
    "greedy": ({"coverage_penalty": "gnmt", "beta": 1.0, "beams": 1}, "give more beams"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings(name):
    given, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        DecodingSettings(**given)


@pytest.mark.parametrize("size", [9, 511, 512 * 6, 512 * 20, 512 * 20 + 7])
def test_the_highest_are_those_of_all(size):
    scores = torch.randn(3, size, generator=torch.Generator().manual_seed(size))
    scores[1, 8:] = -math.inf
    scores[2, -8:] += 9
    assert highest(scores, 8).equal(scores.topk(8).indices)
