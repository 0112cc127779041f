"""``KERNEL``: the functions of the compiled library, called with tensors.

Each function ``name`` is there as ``name_float32``, ``name_float64`` and so on, and takes arrays of
sizes, of addresses and of numbers, and how many threads it may use (``functions.h``). It knows
nothing of what they compute.
"""

import ctypes
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from dwindle.native.build import library

_NAMES = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
}


class Functions:
    """The functions of the library, which is built or loaded at the first question."""

    @cached_property
    def available(self) -> bool:
        """True if there is a library."""
        return self._loaded is not None

    def do(self, x: Tensor) -> bool:
        """True if there is a library, with functions for tensors like this one. (Half precision:
        attention only.)"""
        return x.is_cpu and x.dtype in (torch.float32, torch.float64) and self.available

    def __call__(
        self,
        name: str,
        dtype: torch.dtype,
        sizes: Sequence[int],
        arrays: Sequence[Tensor | None],
        *numbers: float,
    ) -> None:
        """Call a function whose arrays are dense, those that it writes to among them; None is a
        null pointer."""
        if any(x is not None and not x.is_contiguous() for x in arrays):
            raise ValueError(f"{name} takes dense arrays only")
        self.run(name, dtype, sizes, arrays, as_doubles(numbers))

    def run(
        self,
        name: str,
        dtype: torch.dtype,
        sizes: Sequence[int],
        arrays: Sequence[Tensor | None],
        numbers: "ctypes.Array[ctypes.c_double]",
    ) -> None:
        """Call a function that learns from ``sizes`` how its arrays lie in memory."""
        addresses = [None if x is None else x.data_ptr() for x in arrays]
        failed = getattr(self._loaded, f"{name}_{_NAMES[dtype]}")(
            (ctypes.c_int64 * len(sizes))(*sizes),
            (ctypes.c_void_p * len(addresses))(*addresses),
            numbers,
            ctypes.c_int64(torch.get_num_threads()),
        )
        if failed:
            raise MemoryError(f"there is no memory for {name}: use smaller batches")

    @cached_property
    def _loaded(self) -> ctypes.CDLL | None:
        found = library()
        return None if found is None else ctypes.CDLL(str(found))


def as_doubles(numbers: Sequence[float]) -> "ctypes.Array[ctypes.c_double]":
    """Numbers as C takes them."""
    return (ctypes.c_double * len(numbers))(*numbers)


KERNEL = Functions()
