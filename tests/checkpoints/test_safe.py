"""Pickles of strangers: nothing in them is called, and what cannot be read is refused in a
sentence."""

import collections
import os
import pickle

import numpy as np
import pytest
import torch

from dwindle.checkpoints import safe, torch_files
from tests.checkpoints.kit import namespace, python2


class Attack:
    """When it is unpickled, it writes a file."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


@pytest.mark.parametrize("zipped", [True, False])
def test_settings_beside_weights(zipped, tmp_path):
    content = {
        "args": namespace(heads=4, path=None),
        "model": collections.OrderedDict(a=torch.arange(3.0)),
    }
    torch.save(content, tmp_path / "m.pt", _use_new_zipfile_serialization=zipped)
    read = torch_files.read(tmp_path / "m.pt")
    assert torch.equal(read["model"]["a"], torch.arange(3.0))
    assert safe.settings(read["args"]) == {"heads": 4, "path": None}


@pytest.mark.parametrize("zipped", [True, False])
def test_arrays_of_numpy_beside_weights(zipped, tmp_path):
    """fairseq keeps its best score and its meters as such; they are read as shells."""
    content = {"model": {"a": torch.ones(2)}, "meters": np.arange(3.0), "best": np.float64(75.5)}
    torch.save(content, tmp_path / "m.pt", _use_new_zipfile_serialization=zipped)
    read = torch_files.read(tmp_path / "m.pt")
    assert torch.equal(read["model"]["a"], torch.ones(2))
    assert [type(read[name]) for name in ("meters", "best")] == [safe.Shell] * 2


@pytest.mark.parametrize("zipped", [True, False])
def test_no_code_is_run(zipped, tmp_path):
    content = {"args": namespace(heads=4), "model": {}, "more": Attack(tmp_path / "owned")}
    torch.save(content, tmp_path / "m.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(
        ValueError, match=r"stores more than weights \((posix|nt)\.mkdir\), which could run code"
    ):
        torch_files.read(tmp_path / "m.pt")
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


def test_what_python_2_wrote(tmp_path):
    """Texts are byte strings, numbers beyond 32 bits have an opcode that PyTorch's reader does not
    know."""
    content = {
        "ids": [1, 2**40, -(2**40), True],
        "long": "x" * 300,
        "w": torch.arange(5.0),
        "é": None,
        "half": 0.5,
    }
    python2(content, tmp_path / "m.pt")
    assert b"I1099511627776\n" in (tmp_path / "m.pt").read_bytes()
    read = torch_files.read(tmp_path / "m.pt")
    assert torch.equal(read.pop("w"), content.pop("w"))
    assert read == content


TYPES = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("zipped", [True, False])
def test_numbers_as_pytorch_reads_them(zipped, protocol, tmp_path):
    """Every type, parts of one storage, empty ones, single numbers and parameters."""
    drawn = torch.randn(6, 5, generator=torch.Generator().manual_seed(1)) * 50
    content = {name: drawn.to(getattr(torch, name)) for name in TYPES}
    content |= {"part": drawn[2:4, 1:], "turned": drawn.T, "none": drawn[:0], "one": drawn[3, 3]}
    content |= {
        "learned": torch.nn.Parameter(drawn + 1),
        "size": drawn.shape,
        "type": torch.float16,
    }
    file = tmp_path / "m.pt"
    torch.save(content, file, _use_new_zipfile_serialization=zipped, pickle_protocol=protocol)
    read, right = torch_files.read(file), torch.load(file, weights_only=False)
    assert read.keys() == right.keys()
    assert (read.pop("size"), read.pop("type")) == (right.pop("size"), right.pop("type"))
    for name, value in right.items():
        assert torch.equal(read[name], value), name
        assert (read[name].dtype, read[name].stride()) == (value.dtype, value.stride()), name
    assert read["part"].untyped_storage().data_ptr() == read["turned"].untyped_storage().data_ptr()


def test_a_flipped_bit_in_an_archive_is_found(tmp_path):
    """PyTorch's own reader gives other weights without a word."""
    torch.save({"model": {"a": torch.ones(300)}}, tmp_path / "m.pt")
    stored = bytearray((tmp_path / "m.pt").read_bytes())
    stored[stored.index(torch.ones(300).numpy().tobytes()) + 100] ^= 1
    (tmp_path / "m.pt").write_bytes(stored)
    assert not torch.equal(torch.load(tmp_path / "m.pt")["model"]["a"], torch.ones(300))
    with pytest.raises(ValueError, match="cannot be read"):
        torch_files.read(tmp_path / "m.pt")


@pytest.mark.parametrize("zipped", [True, False])
def test_cut_off_anywhere(zipped, tmp_path):
    torch.save(
        {"model": {"a": torch.arange(300.0)}},
        tmp_path / "m.pt",
        _use_new_zipfile_serialization=zipped,
    )
    whole = (tmp_path / "m.pt").read_bytes()
    for end in (0, 1, 10, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        (tmp_path / "m.pt").write_bytes(whole[:end])
        with pytest.raises(ValueError, match="cannot be read: it is cut off, or of another kind"):
            torch_files.read(tmp_path / "m.pt")
    (tmp_path / "m.pt").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ValueError, match="cannot be read"):
        torch_files.read(tmp_path / "m.pt")
    stored = pickle.dumps({"opt": namespace(a=1)}, 0)
    for end in (0, 3, len(stored) // 2, len(stored) - 1):
        (tmp_path / "x.pkl").write_bytes(stored[:end])
        with pytest.raises(ValueError, match="cannot be read"):
            safe.pickle_file(tmp_path / "x.pkl")


def test_a_tensor_larger_than_its_storage_is_refused(tmp_path):
    torch.save({"model": {"a": torch.zeros(1).expand(1000, 1000)}}, tmp_path / "m.pt")
    with pytest.raises(ValueError, match="cannot be read"):
        torch_files.read(tmp_path / "m.pt")
