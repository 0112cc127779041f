"""What the tests of models share."""

import pytest
import torch

from dwindle.native.functions import KERNEL


@pytest.fixture(params=["kernel", "plain"])
def path(request, monkeypatch):
    """What a model takes, with a compiler and without."""
    if request.param == "plain":
        monkeypatch.setattr(KERNEL, "do", lambda _: False)
    elif not KERNEL.do(torch.empty(0)):
        pytest.skip("there is no compiler")
