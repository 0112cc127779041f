"""Regions shaded by coverage: bright where it was looked, dark elsewhere, one small picture a word;
text is escaped."""

import re

import numpy as np
import pytest
from PIL import Image

from dwindle.data.worlds.scenes import Scenes, scene
from dwindle.data.worlds.scenes_picture import draw
from dwindle.report.regions import fragment, shaded, sheet
from dwindle.runfiles.arrays import Trace

GREY = Image.new("RGB", (100, 50), (120, 120, 120))
BOXES = [[0, 0, 50, 50], [50, 0, 100, 50]]


def trace(words, attention, weights=None, id="one"):
    attention = np.array(attention, dtype=np.float32)
    weights = attention if weights is None else np.array(weights, dtype=np.float32)
    regions = attention.shape[1]
    return Trace(
        id, id, [f"region {i}" for i in range(regions)], [-1] * regions, words, attention, weights
    )


def test_a_region_is_as_bright_as_its_share():
    left, right = (
        np.asarray(shaded(GREY, BOXES, np.array([0.8, 0.2]), 100))[50, x].mean() for x in (25, 75)
    )
    assert left > right > 30
    nothing = np.asarray(shaded(GREY, BOXES[:1], np.array([1.0]), 100))[50, 75]
    assert nothing.tolist() == [30, 30, 30]  # a quarter of 120: no region is there
    assert left == pytest.approx(
        np.asarray(shaded(GREY, BOXES, np.array([4.0, 1.0]), 100))[50, 25].mean()
    )


def test_regions_that_overlap_are_as_bright_as_the_brighter():
    both = np.asarray(shaded(GREY, [BOXES[0], BOXES[0]], np.array([0.2, 1.0]), 100))[50, 25]
    assert (
        both.tolist() == np.asarray(shaded(GREY, BOXES[:1], np.array([1.0]), 100))[50, 25].tolist()
    )


def test_nothing_looked_at_is_no_error():
    assert shaded(GREY, BOXES, np.zeros(2), 64).size == (64, 64)


def test_a_plain_system_has_one_sum_and_another_two():
    plain = trace(["a", " cat", ""], [[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]])
    dim = trace(["a", " cat", ""], [[0.9, 0.1]] * 3, [[0.9, 0.1], [0.3, 0.05], [0.1, 0.02]])
    one, two = sheet(GREY, BOXES, {"plain": plain}), sheet(GREY, BOXES, {"dim": dim})
    assert two.width - one.width == 224 + 8
    both = sheet(GREY, BOXES, {"plain": plain, "dim": dim})
    assert both.size == (two.width, one.height + two.height)


def test_every_word_has_a_picture_of_what_it_used():
    """The bright half changes sides between the first two words on the strip."""
    made = np.asarray(sheet(GREY, BOXES, {"plain": trace(["a", " cat"], [[1.0, 0.0], [0.0, 1.0]])}))
    strip, small = 2 * (224 + 8), 84
    row = made[8 + 14 + small // 2]
    for n, side in enumerate((0, 1)):
        first = strip + n * (small + 4)
        halves = row[first + small // 4].mean(), row[first + 3 * small // 4].mean()
        assert halves[side] > halves[1 - side] + 50


def test_what_dwindles_grows_dark():
    """Both words look left; the second uses a quarter as much, and is darker on the strip."""
    dim = trace(["a", " cat"], [[1.0, 0.0]] * 2, [[1.0, 0.0], [0.25, 0.0]])
    made = np.asarray(sheet(GREY, BOXES, {"dim": dim}))[8 + 14 + 42]
    first, second = (made[3 * (224 + 8) + n * 88 + 21].mean() for n in (0, 1))
    assert first > second + 40


def test_the_fragment_stands_alone_and_is_escaped():
    html = str(
        fragment(GREY, BOXES, {"<b>": trace(["</script>", ' "x"'], [[1.0, 0.0]] * 2, id="<i>")})
    )
    assert "<b>" not in html
    assert "<i>" not in html
    assert "</script>" not in html
    assert "&quot;x&quot;" in html
    assert re.fullmatch(
        r"data:image/png;base64,[A-Za-z0-9+/=]+", re.search(r'src="([^"]*)"', html)[1]
    )


def test_boxes_of_another_image_are_refused():
    with pytest.raises(ValueError, match="plain has looked at 3 regions, but 2 boxes are given"):
        sheet(GREY, BOXES, {"plain": trace(["a"], [[0.5, 0.3, 0.2]])})


def test_a_scene_is_drawn_from_its_gold():
    gold = scene("test", 1, Scenes(), 0)
    boxes = [region["box"] for region in gold["regions"]]
    words = [f" {word}" for word in gold["paragraph"].split()]
    attention = np.random.default_rng(0).dirichlet(np.full(len(boxes), 0.1), len(words))
    made = fragment(draw(gold), boxes, {"plain": trace(words, attention)})
    assert len(made) < 400_000
