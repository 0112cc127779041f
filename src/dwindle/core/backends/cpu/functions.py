"""``Functions``: the C functions of a kernel that has no operators, called with tensors.

Each function ``name`` is there as ``name_float32`` and ``name_float64`` and takes arrays of sizes, of addresses and of
numbers, and how many threads it may use. It knows nothing of what they compute.
"""

import ctypes
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from dwindle.core.backends.cpu.build import library

_NAMES = {torch.float32: "float32", torch.float64: "float64"}


class Functions:
    """Those of the kernel in a folder, built at the first question."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def do(self, x: Tensor) -> bool:
        """Whether they can be had, and for tensors like this one."""
        return x.is_cpu and x.dtype in _NAMES and self._loaded is not None

    def __call__(
        self, name: str, dtype: torch.dtype, sizes: Sequence[int], arrays: Sequence[Tensor | None], *numbers: float
    ) -> None:
        """Call one. Arrays are dense, and None is a null pointer; what the function writes to is among them."""
        if any(x is not None and not x.is_contiguous() for x in arrays):
            raise ValueError(f"{name} takes dense arrays only")
        addresses = [None if x is None else x.data_ptr() for x in arrays]
        getattr(self._loaded, f"{name}_{_NAMES[dtype]}")(
            (ctypes.c_int64 * len(sizes))(*sizes),
            (ctypes.c_void_p * len(addresses))(*addresses),
            (ctypes.c_double * len(numbers))(*numbers),
            ctypes.c_int64(torch.get_num_threads()),
        )

    @cached_property
    def _loaded(self) -> ctypes.CDLL | None:
        built = library(self._folder)
        return None if built is None else ctypes.CDLL(str(built))
