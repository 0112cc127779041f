"""Fixed seeds: a failure here is a failure everywhere."""

import pytest
import torch
from hypothesis import settings

settings.register_profile("dwindle", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("dwindle")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
