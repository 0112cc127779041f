"""The fence around `transformers`: a version that lacks a name is refused in a sentence."""

import importlib
from pathlib import Path

import pytest
import transformers.cache_utils

from dwindle.attaching import library


def test_a_name_that_is_gone():
    class Layer:
        reset = None

    assert library.missing([(Layer, "reset"), (Layer, "crop")]) == ["Layer.crop"]


def test_a_version_without_a_module_s_name(monkeypatch):
    monkeypatch.delattr(transformers.cache_utils, "StaticSlidingWindowLayer")
    with pytest.raises(ImportError, match=r"cannot attach to the transformers .*: pip install 'transformers>=5\.22,<5"):
        importlib.reload(library)


def test_what_to_install_is_what_the_project_says():
    """One range, in the package and in the sentence."""
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    wanted = library.INSTALL.removeprefix("pip install ").strip("'")
    assert f'transformers = ["{wanted}"]' in project
