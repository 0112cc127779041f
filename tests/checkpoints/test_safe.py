"""Pickles of strangers: nothing in them is called, and what cannot be read is refused in a sentence."""

import collections
import os
import pickle

import pytest
import torch

from dwindle.checkpoints import safe
from tests.checkpoints.kit import namespace


class Attack:
    """When it is unpickled, it writes a file."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


@pytest.mark.parametrize("zipped", [True, False])
def test_settings_beside_weights(zipped, tmp_path):
    content = {"args": namespace(heads=4, path=None), "model": collections.OrderedDict(a=torch.arange(3.0))}
    torch.save(content, tmp_path / "m.pt", _use_new_zipfile_serialization=zipped)
    read = safe.torch_file(tmp_path / "m.pt")
    assert torch.equal(read["model"]["a"], torch.arange(3.0))
    assert safe.settings(read["args"]) == {"heads": 4, "path": None}


@pytest.mark.parametrize("zipped", [True, False])
def test_no_code_is_run(zipped, tmp_path):
    content = {"args": namespace(heads=4), "model": {}, "more": Attack(tmp_path / "owned")}
    torch.save(content, tmp_path / "m.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"stores more than weights \((posix|nt)\.mkdir\), which could run code"):
        safe.torch_file(tmp_path / "m.pt")
    (tmp_path / "x.pkl").write_bytes(pickle.dumps({"opt": Attack(tmp_path / "owned")}))
    with pytest.raises(ValueError, match=r"x\.pkl stores more than data \((posix|nt)\.mkdir\)"):
        safe.pickle_file(tmp_path / "x.pkl")
    assert not (tmp_path / "owned").exists()


def test_no_way_through_what_is_known(tmp_path):
    """A name with dots would reach into a known object; getattr and eval are not known at all."""

    def found(*names):
        stored = b"".join(b"\x8c" + bytes([len(name)]) + name.encode() for name in names)
        (tmp_path / "x.pkl").write_bytes(b"\x80\x04" + stored + b"\x93.")
        return safe.pickle_file(tmp_path / "x.pkl")

    for name in ("eval", "getattr", "object.__subclasses__"):
        with pytest.raises(ValueError, match="could run code"):
            found("builtins", name)
    assert found("argparse", "Namespace.__init__.__globals__") is safe.Shell


@pytest.mark.parametrize("zipped", [True, False])
def test_cut_off_anywhere(zipped, tmp_path):
    torch.save({"model": {"a": torch.arange(300.0)}}, tmp_path / "m.pt", _use_new_zipfile_serialization=zipped)
    whole = (tmp_path / "m.pt").read_bytes()
    for end in (0, 1, 10, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        (tmp_path / "m.pt").write_bytes(whole[:end])
        with pytest.raises(ValueError, match="cannot be read: it is cut off, or of another kind"):
            safe.torch_file(tmp_path / "m.pt")
    (tmp_path / "m.pt").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ValueError, match="cannot be read"):
        safe.torch_file(tmp_path / "m.pt")
    stored = pickle.dumps({"opt": namespace(a=1)}, 0)
    for end in (0, 3, len(stored) // 2, len(stored) - 1):
        (tmp_path / "x.pkl").write_bytes(stored[:end])
        with pytest.raises(ValueError, match="cannot be read"):
            safe.pickle_file(tmp_path / "x.pkl")
