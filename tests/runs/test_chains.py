"""Arms with a start of their own: a method that was trained in two stages, from one first
checkpoint."""

import pytest

from dwindle.runs import arena, recipe

TINY = [
    "data.size={train: 12, dev: 2, test: 3}",
    "model.size=tiny",
    "training.steps=2",
    "training.batch_size=4",
    "model.target_length=12",
    "decoding.max_length=8",
]


@pytest.fixture
def plan(tmp_path):
    """Plain and Dim in cross-entropy, then self-critically."""
    where = f"data.path={tmp_path / 'features'}"
    changes = [
        f"{stage}{change}" for stage in ("", "start.", "start.start.") for change in (*TINY, where)
    ]
    return arena.arena([recipe.read(f"scenes/sc-{arm}", changes) for arm in ("plain", "dim")], 1)


def test_the_first_checkpoint_is_trained_once(plan, tmp_path):
    said = []
    arena.fight(plan, tmp_path / "out", said.append)
    trained = [sentence.split(":")[0] for sentence in said if "training" in sentence]
    stages = ["start/start", "start", "sc-plain/seed-1", "sc-dim/start", "sc-dim/seed-1"]
    assert sorted(trained) == sorted(str(tmp_path / "out" / stage) for stage in stages)
    said.clear()
    arena.fight(plan, tmp_path / "out", said.append)
    assert not [sentence for sentence in said if "training" in sentence]


def test_arms_may_differ_in_the_method_of_their_starts_and_in_nothing_else(plan):
    assert plan.base == "sc-plain"
    arms = [recipe.read(f"scenes/sc-{arm}") for arm in ("plain", "dim")]
    longer = recipe.read("scenes/sc-dim", ["start.training.steps=9"])
    with pytest.raises(
        ValueError, match=r"differ in more than the method: start\.training\.steps \(300, 9\)"
    ):
        arena.arena([arms[0], longer], 1)
