"""One case of each quick trial, so that the soak itself stays in order."""

from random import Random

import pytest

from tests.soak import (
    attention,
    damage,
    families,
    importers,
    moved,
    pages,
    scripts,
    tasks,
    threads,
    wrapped,
)

QUICK = [attention, damage, families, importers, moved, pages, scripts, tasks, threads, wrapped]


@pytest.mark.parametrize("of", QUICK, ids=lambda m: m.__name__.rpartition(".")[2])
def test_one_case(of, tmp_path):
    assert of.trial(Random("one"), tmp_path) > 0
