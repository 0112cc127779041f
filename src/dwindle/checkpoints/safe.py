"""Reads pickled files of strangers without running any of their code.

A pickle can name any function and have it called. Here names are looked up in a list, and nothing
is imported: what is known is made by functions of this module, and objects that come with weights
(settings of ``argparse``, optimisers, meters) become a ``Shell`` that only holds what was stored.
Any other name is refused.

Nor may a small file take much memory. Before anything is built its opcodes are read: a length
beyond the end of the file, a place in the memo beyond those in use, and more objects than a
checkpoint has are refused. Functions that copy what they are given keep count, because one line of
a pickle may be copied again and again. Knows no tensors: those are read by ``torch_files``.
"""

import io
import pickle
import pickletools
from collections import OrderedDict
from collections.abc import Callable, Sized
from pathlib import Path
from typing import IO, Any

_SHELLS = (
    *("argparse.Namespace", "fairseq.", "omegaconf.", "models.optimizers.", "torch.optim."),
    *("numpy.core.multiarray.", "numpy._core.multiarray.", "numpy.dtype", "numpy.ndarray"),
    "torch.device",
)
"""Names, or their beginnings, of objects beside weights that are read as a ``Shell``."""
_NEW_NAMES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
"""Modules of Python 2, and their names today."""
_CALLS = {"REDUCE", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD", "BINPERSID", "PERSID"}
_FILLS = {"EMPTY_SET", "FROZENSET", "ADDITEMS", "DICT", "SETITEM", "SETITEMS", "APPEND", "APPENDS"}
_MEMO = {"PUT", "BINPUT", "LONG_BINPUT"}
_OBJECT, _FILLED, _CALLED = 80, 250, 1000
"""Number of bytes that an opcode may take: for a plain value, for a container's first items, for an
object."""
_ITEM = 100
"""Bytes of an item of a container that is copied."""
ALLOWED = 120_000_000
"""Bytes that the objects of any file may take, however small it is; tensors are not among them."""


class Shell:
    """The stored content of an object whose class is not here, without behaviour."""

    def __init__(self, *stored: Any) -> None:
        self.stored = stored

    def __setstate__(self, state: Any) -> None:
        # not copied, because the pickle may use it again
        self.__dict__ = state if isinstance(state, dict) else {"stored": state}


class _Ordered(OrderedDict[Any, Any]):
    """An ``OrderedDict`` without attributes: there PyTorch puts versions, which nobody needs."""

    def __setstate__(self, state: Any) -> None:
        pass


class RefusedError(Exception):
    """A name that is not known."""


class PickleReader(pickle.Unpickler):
    """Containers and shells only. ``made``: what else may be called, by name."""

    def __init__(self, stream: IO[bytes], made: dict[str, Any] | None = None) -> None:
        # byte strings are texts of Python 2
        super().__init__(stream, encoding="utf-8", errors="replace")
        self._left = ALLOWED
        self._made = {
            "builtins.object": object,
            "builtins.complex": complex,
            "builtins.dict": lambda *_: {},  # what a defaultdict makes; its items follow
            "builtins.set": lambda items=(): set(self._copied(items)),
            "collections.defaultdict": lambda *_: {},  # the default is not kept
            "collections.OrderedDict": lambda items=(): _Ordered(self._copied(items)),
            "collections.Counter": lambda items=(): dict(self._copied(items)),
            # how old pickles begin an object
            "copyreg._reconstructor": lambda kind, base, state: kind(),
            # how they store bytes
            "_codecs.encode": lambda text, encoding: self._copied(text, 1).encode("latin-1"),
            **(made or {}),
        }

    def find_class(self, module: str, name: str) -> Any:
        whole = f"{_NEW_NAMES.get(module, module)}.{name}"
        if whole in self._made:
            return self._made[whole]
        if whole.startswith(_SHELLS):
            return Shell
        raise RefusedError(whole)

    def _copied(self, items: Any, each: int = _ITEM) -> Any:
        """Count the ``items`` before they are copied, and return them."""
        if not isinstance(items, Sized):
            raise ValueError("no container")
        self._left -= each * len(items)
        if self._left < 0:
            raise ValueError("parts of it are copied again and again")
        return items


def settings(stored: Any) -> dict[str, Any]:
    """The content of a ``Shell`` or a mapping, as a plain mapping."""
    found = vars(stored) if isinstance(stored, Shell) else stored
    return dict(found) if isinstance(found, dict) else {}


def pickle_file(path: Path) -> Any:
    """The content of a plain pickle, also one of Python 2."""

    def read() -> Any:
        content = io.BytesIO(path.read_bytes())
        check(content, path.stat().st_size)
        content.seek(0)
        return PickleReader(content).load()

    return said(path, "data", read)


def said(path: Path, what: str, read: Callable[[], Any]) -> Any:
    """Call ``read``; whatever is wrong with the file becomes a `ValueError` of one sentence."""
    try:
        return read()
    except OSError:
        raise
    except MemoryError:
        raise ValueError(
            f"{path} needs more memory than there is: read it on a larger machine"
        ) from None
    except RefusedError as error:
        raise ValueError(
            f"{path} stores more than {what} ({error}), which could run code: it is not opened"
        ) from None
    except Exception:
        # A pickle that ends early raises whatever its last opcode stumbles over.
        raise ValueError(
            f"{path} cannot be read: it is cut off, or of another kind; get it again"
        ) from None


class _Bounded:
    """A stream that takes at most ``size`` bytes at a time: memory only for what is there."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self.readline, self._stream, self._size = stream.readline, stream, size

    def read(self, size: int) -> bytes:
        if size > self._size:
            raise ValueError(f"{size} bytes are announced in a file of {self._size}")
        return self._stream.read(size)


def check(stream: IO[bytes], size: int) -> None:
    """Walk over one pickle of at most ``size`` bytes; a `ValueError` if it would take far more
    memory than that."""
    taken = 0
    for number, (opcode, argument, _) in enumerate(pickletools.genops(_Bounded(stream, size))):  # type: ignore[arg-type]
        name = opcode.name
        if name in _MEMO and int(argument or 0) > number:  # an array is made that has this place
            raise ValueError(f"place {argument} of a memo after {number} opcodes")
        if name == "FRAME" and int(argument or 0) > size:
            raise ValueError(f"{argument} bytes are announced in a file of {size}")
        taken += _CALLED if name in _CALLS else _FILLED if name in _FILLS else _OBJECT
        if isinstance(argument, str | bytes):
            # one rare sign makes all of a text wide
            taken += (4 if isinstance(argument, str) else 1) * len(argument)
        if taken > ALLOWED + size:
            raise ValueError("more objects than a checkpoint has")
