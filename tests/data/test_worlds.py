"""Laws that hold in every synthetic world."""

import json

import pytest

from dwindle.data.load import CORPORA, DataSettings, Size, load
from dwindle.data.worlds import newsroom, phrasebook
from dwindle.data.worlds.common import NAMES, Chance, Counts, name
from dwindle.metrics.world import WORLDS, count

MADE = ("newsroom", "phrasebook")


@pytest.fixture(params=MADE)
def world(request):
    return request.param


def split(world, which, size=300, **more):
    return load(DataSettings(world, size=Size(**{which: size}), **more), which)


def test_every_world_is_a_corpus_and_is_counted():
    assert set(MADE) <= set(WORLDS) <= set(CORPORA)


@pytest.mark.parametrize("seed", [1, 7])
def test_a_reference_omits_repeats_and_invents_nothing(world, seed):
    for which in ("train", "dev", "test"):
        for example in split(world, which, seed=seed):
            counts = count(example.gold, example.target)
            assert counts == Counts(counts.facts, 0, 0, 0, 0), example
            assert counts.facts == counts.stated > 0


def test_an_empty_output_omits_all_and_states_nothing(world):
    for example in split(world, "test", 50):
        counts = count(example.gold, "")
        assert counts == Counts(counts.facts, counts.facts, 0, 0, 0)


def test_saying_all_twice_repeats_all(world):
    for example in split(world, "test", 100):
        once = count(example.gold, example.target)
        assert count(example.gold, f"{example.target}\n{example.target}") == Counts(
            once.facts, 0, once.facts, 0, 0
        )


def test_an_example_depends_on_seed_split_and_number_alone(world):
    many, few = split(world, "train", 50), split(world, "train", 5)
    assert list(many[:5]) == list(few)
    assert split(world, "train", 5, seed=2)[0] != few[0]
    assert split(world, "dev", 5)[0].source != few[0].source


def test_splits_share_no_source_and_ids_differ(world):
    sources = {
        which: {e.source for e in split(world, which, 1000)} for which in ("train", "dev", "test")
    }
    assert not sources["train"] & sources["dev"]
    assert not sources["train"] & sources["test"]
    assert not sources["dev"] & sources["test"]
    ids = [e.id for which in ("train", "dev", "test") for e in split(world, which)]
    assert len(set(ids)) == len(ids)


def test_gold_is_plain_json_and_names_its_world(world):
    example = split(world, "test", 1)[0]
    assert json.loads(json.dumps(example.gold)) == example.gold
    assert (example.gold["world"], example.gold["version"]) == (world, WORLDS[world][0])


def test_what_the_worlds_make_on_every_machine():
    """Golden: made by this code, version 1. Another text means another world: raise the version."""
    assert split("newsroom", "test", 1)[0].source.split("\n")[0] == (
        "the dairy of vadosburg had been found by roduti tujolov ."
    )
    assert (
        split("phrasebook", "test", 1)[0].source
        == "pudina nahuse pudinus ki la dusila lapele u vujire kutelis"
    )


@pytest.mark.parametrize(
    "gold",
    [
        None,
        {},
        {"world": "atlantis"},
        {"world": "newsroom", "version": 0},
        {"world": "newsroom", "version": newsroom.VERSION},
        {"world": "phrasebook", "version": phrasebook.VERSION, "alignment": 3},
    ],
)
def test_bad_gold_is_a_sentence(gold):
    with pytest.raises(ValueError, match="the gold is"):
        count(gold, "x")


def test_names_differ_and_do_not_collide():
    kinds = ("i", "ov", "burg")
    made = {name(i, kind) for i in range(NAMES) for kind in kinds}
    assert len(made) == 3 * NAMES


def test_chance_is_python_s_own_promise():
    """The first draws of Random("a b"), whose `random` Python keeps from version to version."""
    import random

    rng, chance = random.Random("a b"), Chance("a", "b")
    expected = [rng.random() for _ in range(4)]
    assert chance.below(1000) == int(expected[0] * 1000)
    assert chance.unit(0.5) == 0.5 + 0.5 * expected[1]
    assert chance.happens(0.5) == (expected[2] < 0.5)
    assert chance.pick("xyz") == "xyz"[int(expected[3] * 3)]
    assert sorted(chance.sample(range(9), 9)) == list(range(9))
