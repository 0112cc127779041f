"""TensorFlow's checkpoints without TensorFlow."""

import pytest
import torch

from dwindle.checkpoints.tensorflow import Bundle
from tests.checkpoints import bundle

VARIABLES = {
    **{f"model/layer_{n}/kernel": torch.arange(6.0).reshape(2, 3) + n for n in range(40)},
    "model/scalar": torch.tensor(3.5),
    "global_step": torch.tensor(238410),
    "double": torch.tensor([1.5, -2.0], dtype=torch.float64),
}


def test_every_variable(tmp_path):
    bundle.write(tmp_path / "model-7", VARIABLES)
    read = Bundle(tmp_path / "model-7.index")
    assert len(read) == len(VARIABLES)
    for name, value in VARIABLES.items():
        assert torch.equal(read[name], value)
        assert read[name].dtype == value.dtype


def test_sizes_are_not_believed(tmp_path, monkeypatch):
    """A shape of terabytes takes no memory, and one that does not fit its bytes is refused."""
    monkeypatch.setattr(
        bundle, "field", lambda n, v, field=bundle.field: field(n, 2**45 if n == 5 else v)
    )
    bundle.write(tmp_path / "m", {"a": torch.arange(6.0)})
    with pytest.raises(ValueError, match="the size of a does not fit its shape"):
        Bundle(tmp_path / "m.index")["a"]
    monkeypatch.setattr(
        bundle, "field", lambda n, v, field=bundle.field: field(n, 2**43 if v == 6 else v)
    )
    bundle.write(tmp_path / "m", {"a": torch.arange(6.0)})
    with pytest.raises(ValueError, match="ends before a does"):
        Bundle(tmp_path / "m.index")["a"]


def test_what_is_cut_off_or_missing(tmp_path):
    bundle.write(tmp_path / "m", VARIABLES)
    index, data = tmp_path / "m.index", tmp_path / "m.data-00000-of-00001"
    whole = index.read_bytes()
    for broken in (b"", b"no table at all" * 9, whole[:-1], whole[:100] + whole[-60:], whole[40:]):
        index.write_bytes(broken)
        with pytest.raises(ValueError, match="not a whole index of a TensorFlow checkpoint"):
            Bundle(index)
    index.write_bytes(whole)
    read = Bundle(index)
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(ValueError, match="ends before model/scalar does: it is cut off"):
        read["model/scalar"]
    data.unlink()
    with pytest.raises(ValueError, match=r"there is no .*data-00000-of-00001"):
        read["model/scalar"]


def test_variables_that_overlap_are_refused(tmp_path):
    """Many names for one place would take the memory of many."""
    bundle.write(tmp_path / "m", {"a": torch.arange(6.0), "b": torch.arange(6.0)})
    data = tmp_path / "m.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:24])
    with pytest.raises(ValueError, match="shorter than its variables, so they overlap"):
        Bundle(tmp_path / "m.index")["a"]
