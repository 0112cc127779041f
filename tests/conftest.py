"""Fixed seeds: a failure here is a failure everywhere."""

import pytest
import torch
from hypothesis import settings

from tests import browser_kit

settings.register_profile("dwindle", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("dwindle")


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory):
    """What is kept for all runs is kept for all tests, but not for the user. The compiled kernel
    may stay."""
    from dwindle.native import build
    from dwindle.system import cache

    assert build.home is cache.home, (
        "imported first, so that the kernel stays where it is and is not compiled again"
    )
    found = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "home", lambda: found)
        yield


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A browser for the tests of one file, which skip where there is none."""
    driver = browser_kit.started(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
