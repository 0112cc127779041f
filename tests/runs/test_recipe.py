"""Recipes: what a whole one must have, and in what two of them differ."""

import pytest

from dwindle.runs import recipe, schema, shelf


def test_unknown_keys_are_named_with_the_nearest_one():
    with pytest.raises(
        ValueError, match=r"no key is called training.step: did you mean training.steps"
    ):
        recipe.read("newsroom/base", ["training.step=3"])


def test_wrong_types_are_named():
    with pytest.raises(ValueError, match=r"decoding.beams is 'many': write a whole number"):
        recipe.read("newsroom/base", ["decoding.beams=many"])


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (["training=null"], "nothing was ever trained here"),
        (["model.start=folder", "start=newsroom/base"], "keep one of them"),
        (["decoding.beams=0"], "decoding: beams is 0"),
        (["data.size.test=0"], "size.test is 0"),
        (["model.rule=dmi:log"], "did you mean 'dim:log'"),
    ],
)
def test_values_that_make_no_sense_are_refused(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        recipe.read("newsroom/base", changes)


def test_changes_are_named_by_dotted_keys_and_labels_do_not_count():
    one = recipe.read("newsroom/plain")
    two = recipe.read(
        "newsroom/plain", ["about=x", "model.rule=dim:log", "start.seed=2", "published={bleu: 1}"]
    )
    changed = recipe.changes(one, two)
    assert [(c.key, c.before, c.after) for c in changed] == [
        ("model.rule", "plain", "dim:log"),
        ("start.seed", 1, 2),
    ]
    assert str(changed[0]) == "model.rule: plain → dim:log"
    # as run folders have them
    assert recipe.changes(schema.plain(one), schema.plain(two)) == changed
    assert recipe.changes(one, one) == []


def test_a_recipe_without_training_differs_in_it():
    one = recipe.read("newsroom/plain")
    two = recipe.read("newsroom/plain", ["training=null"])
    changed = {change.key: (change.before, change.after) for change in recipe.changes(one, two)}
    assert changed["training.steps"] == (one.training.steps, None)


@pytest.mark.parametrize(
    ("key", "purpose"),
    [
        ("model.rule", "attention"),
        ("model.copy", "attention"),
        ("start.model.rule", "attention"),
        ("start.start.training.coverage_loss", "attention"),
        ("decoding.temporal", "attention"),
        ("decoding.block_ngrams", "search"),
        ("decoding.beams", "setting"),
        ("data.size.train", "setting"),
        ("data.seed", "setting"),
        ("seed", "asked"),
        ("start.seed", "setting"),  # other weights to begin with
        ("metrics", "asked"),
        ("start.metrics", "asked"),
        ("published.rouge1", "label"),
        ("start.about", "label"),
    ],
)
def test_what_a_setting_is_for(key, purpose):
    assert recipe.purpose_of(key) == purpose


def test_labels_are_those_that_a_base_does_not_hand_on():
    assert {key for key, purpose in recipe._purposes().items() if purpose == "label"} == set(
        shelf.LABELS
    )
