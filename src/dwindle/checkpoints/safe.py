"""Pickled files of strangers, read without running any of their code.

A pickle can name any function and have it called. Here names are looked up in a list, and nothing is imported: tensors
are read by PyTorch's own restricted reader (``weights_only``), and objects that come with them (settings of
``argparse``, optimisers, meters) become a ``Shell`` that only holds what was stored. Any other name is refused.
"""

import pickle
import pickletools
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import torch

_SHELLS = (
    *("argparse.Namespace", "fairseq.", "omegaconf.", "models.optimizers.", "torch.optim."),
    *("numpy.core.multiarray.", "numpy._core.multiarray.", "numpy.dtype"),
)
"""Names, or how they begin, of objects that are read as a ``Shell``: what the known projects store beside weights."""
_NEW_NAMES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
"""What modules of Python 2 are called today."""
_KNOWN: dict[str, Any] = {
    "builtins.object": object,
    "collections.OrderedDict": OrderedDict,
    "copyreg._reconstructor": lambda kind, base, state: kind(),  # how old pickles begin an object
    "_codecs.encode": lambda text, encoding: text.encode("latin-1"),  # and how they store bytes
}
"""All that a plain pickle may call. Of ``kind`` there are only shells."""
_LEGACY_HEAD = 3
"""Pickles in front of the content in files of PyTorch before 1.6: a number, the protocol, the machine."""


class Shell:
    """An object of a class that is not here: what was stored of it, and no behaviour."""

    def __init__(self, *stored: Any) -> None:
        self.stored = stored

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state if isinstance(state, dict) else {"stored": state})


def settings(stored: Any) -> dict[str, Any]:
    """What a ``Shell`` or a mapping holds, as a plain mapping."""
    found = vars(stored) if isinstance(stored, Shell) else stored
    return dict(found) if isinstance(found, dict) else {}


def torch_file(path: Path) -> Any:
    """The content of a file of ``torch.save``, on the CPU."""
    try:
        shells: list[Any] = [(Shell, name) for name in _names(path) if name.startswith(_SHELLS)]
        with torch.serialization.safe_globals(shells):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if "global" in str(error).lower():
            raise ValueError(
                f"{path} stores more than weights ({_refused(path)}), which could run code: it is not opened"
            ) from None
        raise _broken(path) from None
    except OSError:
        raise
    except Exception:
        # PyTorch reports a file that ends early, or is none of its own, in a dozen ways.
        raise _broken(path) from None


def pickle_file(path: Path) -> Any:
    """The content of a plain pickle, also one of Python 2."""
    try:
        with path.open("rb") as file:
            return _Reader(file, encoding="utf-8", errors="replace").load()
    except OSError:
        raise
    except _RefusedError as error:
        raise ValueError(f"{path} stores more than data ({error}), which could run code: it is not opened") from None
    except Exception:
        # A pickle that ends early raises whatever its last opcode stumbles over.
        raise _broken(path) from None


class _RefusedError(Exception):
    """A name that is not known."""


class _Reader(pickle.Unpickler):
    """Containers and shells only."""

    def find_class(self, module: str, name: str) -> Any:
        whole = f"{_NEW_NAMES.get(module, module)}.{name}"
        if whole in _KNOWN:
            return _KNOWN[whole]
        if whole.startswith(_SHELLS):
            return Shell
        raise _RefusedError(whole)


def _broken(path: Path) -> ValueError:
    return ValueError(f"{path} cannot be read: it is cut off, or of another kind; get it again")


def _refused(path: Path) -> str:
    """The first name in the file that is neither PyTorch's nor a shell's."""
    known = ("torch.", "collections.", "_codecs.")
    return next((name for name in _names(path) if not name.startswith((*_SHELLS, *known))), "an object")


def _names(path: Path) -> list[str]:
    """Every class and function that the content of a torch file names. Looks at opcodes, builds nothing."""
    with path.open("rb") as file:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                inside = next(name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl")
                with archive.open(inside) as stream:
                    return list(_globals(stream))  # type: ignore[arg-type]
        file.seek(0)
        for _ in range(_LEGACY_HEAD):
            list(_globals(file))
        return list(_globals(file))


def _globals(stream: BinaryIO) -> Iterator[str]:
    for opcode, argument, _ in pickletools.genops(stream):
        if opcode.name == "GLOBAL":
            yield str(argument).replace(" ", ".")
