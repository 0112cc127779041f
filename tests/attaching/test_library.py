"""The fence around `transformers`: a version that lacks a name is refused in a sentence."""

import importlib
from pathlib import Path

import pytest
import transformers.cache_utils

from dwindle.attaching import library

KNOWN = library.KNOWN.replace(".", r"\.")


def test_a_name_that_is_gone():
    class Layer:
        reset = None

    assert library.missing([(Layer, "reset"), (Layer, "crop")]) == ["Layer.crop"]


def test_a_version_without_a_name_for_which_there_is_no_substitute(monkeypatch):
    monkeypatch.delattr(transformers.cache_utils, "DynamicSlidingWindowLayer")
    with pytest.raises(
        ImportError,
        match=rf"cannot attach with transformers .*, pip install 'transformers=={KNOWN}'",
    ):
        importlib.reload(library)


def test_the_newest_release_known_to_work_is_the_pinned_one():
    constraints = (Path(__file__).parents[2] / "constraints.txt").read_text("utf-8")
    assert f"transformers=={library.KNOWN}" in constraints.splitlines()
