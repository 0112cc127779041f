"""Small recipes for the tests of this room, trained in a second."""

import gc

import pytest

from dwindle.runs import recipe
from tests.runs.tiny_recipes import tiny


@pytest.fixture(autouse=True, scope="session")
def _frozen():
    """The trainer collects garbage each time it starts: a second for all modules of the libraries,
    which are none."""
    import dwindle.runs.steps  # noqa: F401

    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def small():
    """Reads a newsroom recipe, made tiny, its start too."""

    def small(name: str, *changes: str) -> recipe.Recipe:
        return recipe.read(name, [*tiny(name), *changes])

    return small
