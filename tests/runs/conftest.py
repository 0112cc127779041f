"""Small recipes for the tests of this room, trained in a second."""

import gc
import warnings

import pytest

from dwindle.runs import recipe

TINY = ["data.size={train: 24, dev: 4, test: 6}", "training.steps=2", "training.batch_size=4", "decoding.max_length=12"]
NEWS = [*TINY, "model.size=tiny", "model.vocabulary=300", "model.source_length=40", "decoding.min_length=1"]


@pytest.fixture(autouse=True)
def _libraries_may_warn():
    """The library's trainer warns of what it will change some day."""
    with warnings.catch_warnings():
        warnings.filterwarnings("default", category=FutureWarning)
        warnings.filterwarnings("default", category=DeprecationWarning)
        yield


@pytest.fixture(autouse=True, scope="session")
def _frozen():
    """The trainer collects garbage each time it starts: a second for all modules of the libraries, which are none."""
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


def tiny(name: str) -> list[str]:
    """The changes that make a newsroom recipe tiny."""
    return [*NEWS, *(f"start.{change}" for change in NEWS if "start" in recipe.shelf.mapping(name))]
