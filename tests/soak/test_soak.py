"""One case of each quick trial, so that the soak itself stays in order."""

from random import Random

import pytest

from tests.soak import attention, damage, families, pages, threads


@pytest.mark.parametrize(
    "of", [attention, damage, families, pages, threads], ids=lambda m: m.__name__.rpartition(".")[2]
)
def test_one_case(of, tmp_path):
    assert of.trial(Random("one"), tmp_path) > 0
