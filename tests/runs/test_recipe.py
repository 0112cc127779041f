"""Recipes: what a whole one must have, and in what two of them differ."""

import pytest

from dwindle.runs import recipe


def test_unknown_keys_are_named_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"no key is called training.step: did you mean training.steps"):
        recipe.read("newsroom/base", ["training.step=3"])


def test_wrong_types_are_named():
    with pytest.raises(ValueError, match=r"decoding.beams is 'many': write a whole number"):
        recipe.read("newsroom/base", ["decoding.beams=many"])


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (["training=null"], "nothing was ever trained here"),
        (["start=newsroom/base", "model.start=folder"], "keep one of them"),
        (["decoding.beams=0"], "decoding: beams is 0"),
        (["data.size.test=0"], "size.test is 0"),
        (["model.rule=dmi:log"], "did you mean 'dim:log'"),
    ],
)
def test_values_that_make_no_sense_are_refused(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        recipe.read("newsroom/base", changes)


def test_differences_are_named_by_dotted_keys_and_labels_do_not_count():
    one = recipe.read("newsroom/plain")
    two = recipe.read("newsroom/plain", ["about=x", "model.rule=dim:log", "start.seed=2", "published={bleu: 1}"])
    assert recipe.differences(one, two) == {"model.rule": ("plain", "dim:log"), "start.seed": (1, 2)}
    assert recipe.differences(one, one) == {}


def test_a_recipe_without_training_differs_in_it():
    one = recipe.read("newsroom/plain")
    two = recipe.read("newsroom/plain", ["training=null"])
    assert recipe.differences(one, two)["training.steps"] == (one.training.steps, None)
