"""Sizes of the tiles that the Triton kernels work on, and which of them Triton tries on a device.

Chosen by what the compiler makes of them (``make gpu-check``): no spilled register, two blocks to a
processor. Which of those is fastest only the device knows; ``triton.autotune`` asks it once for
each class of calls.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton

from dwindle.core.backends import triton_kernels as kernels
from dwindle.core.backends.call import Call, generation

BETWEEN = 16
"""Target rows between two coverages that are kept for the backward pass, whose tiles have so many
rows."""

FUSED = {"enable_fp_fusion": True}
"""Allow one instruction for a multiplication and an addition; Triton 3.10 no longer does so by
itself."""

Sizes = dict[str, int]
Grid = tuple[int | Callable[[Sizes], int], ...]


class Tile(NamedTuple):
    """One choice for a kernel."""

    sizes: Sizes
    warps: int
    stages: int


def wide(n: int) -> int:
    """The power of two that n numbers fit into, as Triton's blocks need it."""
    return max(16, 1 << (n - 1).bit_length())


def choices(name: str, call: Call) -> list[Tile]:
    """Tiles for a kernel of a call, the largest that fits first: the more registers its options
    take, the smaller the tile."""
    bytes_each = call.query.element_size()
    row = bytes_each * max(wide(call.query.shape[3]), wide(call.value.shape[3]))
    narrow = row <= 128
    if name == "norms":
        rows = 128 if narrow and call.bias is None else 64
        return [Tile({"ROWS": rows, "BLOCK": 64 if bytes_each < 4 else 32}, 4, 2)]
    small = {"ROWS": BETWEEN, "BLOCK": 64}
    if name != "forward":
        # With a second stage the numbers of the next tile are fetched before they are needed.
        # In float32 as well, where it fits into the shared memory.
        single = bytes_each == 4 and row <= 256 and (call.rule.share_heads or _has_mask(call))
        second = call.bias is not None or call.dropout or single
        return [Tile(small, 4, 2 if second else 1)]
    found = [Tile(small, 4, 2 if narrow else 1)]
    if bytes_each == 4 or row > 256 or _has_numbers(call):
        return found
    # From this generation on four warps multiply 64 x 64 together, which takes more registers.
    together = generation(call.query.device) >= 9
    if narrow:
        large = Tile({"ROWS": 64, "BLOCK": 64}, 4, 1 if together else 2)
    elif _has_flags(call) or together:
        large = Tile({"ROWS": 32, "BLOCK": 64}, 4, 2)
    else:
        large = Tile({"ROWS": 32, "BLOCK": 128}, 4, 1)
    return [large, *found]


def _has_numbers(call: Call) -> bool:
    """True if an option is read, drawn or summed for each row and position."""
    given = call.bias is not None or call.rows is not None or bool(call.dropout)
    return _has_mask(call) or given or call.rule.renormalise


def _has_mask(call: Call) -> bool:
    """True if a mask says something of each row and position."""
    return call.mask is not None and call.mask.shape[2] > 1


def _has_flags(call: Call) -> bool:
    """True if an option is read for each position."""
    return any(option is not None for option in (call.mask, call.protected, call.source))


class KernelPlan(NamedTuple):
    """A kernel for a class of calls."""

    name: str
    tiles: tuple[Tile, ...]
    constants: dict[str, Any]

    def size(self, name: str, among: Callable[..., int]) -> int:
        """The ``min`` or ``max`` of a size over all choices."""
        return among(tile.sizes[name] for tile in self.tiles)

    def start(self, grid: Grid, *arguments: Any) -> None:
        """Run it. A grid's functions are asked with the sizes of the tile."""

        def programs(sizes: Sizes) -> tuple[int, ...]:
            return tuple(n(sizes) if callable(n) else n for n in grid)

        if len(self.tiles) > 1:
            launch(_tuned(self.name, self.tiles), programs, arguments, self.constants)
        else:
            [tile] = self.tiles
            options = {"num_warps": tile.warps, "num_stages": tile.stages}
            constants = self.constants | tile.sizes | options
            launch(getattr(kernels, self.name), programs(tile.sizes), arguments, constants)


def launch(kernel: Any, grid: Any, arguments: tuple[Any, ...], constants: dict[str, Any]) -> None:
    """Start a kernel. The one place that does: a check without a device puts itself here."""
    kernel[grid](*arguments, **constants, **FUSED)


_ADDED_TO = {"backward_values": ["Dots"], "backward_scores": ["DBias", "DQ"]}


@lru_cache(maxsize=64)
def _tuner(name: str, tiles: tuple[Any, ...]) -> Any:
    configs = [
        triton.Config(dict(sizes), num_warps=warps, num_stages=stages)
        for sizes, warps, stages in tiles
    ]
    tune = triton.autotune(configs=configs, key=["CLASS"], reset_to_zero=_ADDED_TO.get(name))
    return tune(getattr(kernels, name))


def _tuned(name: str, tiles: tuple[Tile, ...]) -> Any:
    return _tuner(
        name, tuple((tuple(tile.sizes.items()), tile.warps, tile.stages) for tile in tiles)
    )


def plan(name: str, call: Call, alone: bool) -> KernelPlan:
    """Settings that a kernel is run with for a call. ``alone``: with the first choice, without
    asking the device."""
    d, dv = call.query.shape[3], call.value.shape[3]
    tiles = choices(name, call)
    constants: dict[str, Any] = {"D": d, "WIDE": wide(d), "PRODUCTS": products(call.query)}
    if name not in ("norms", "shared_mean"):
        constants |= {"DV": dv, "WIDE_V": wide(dv)}
    if name in ("forward", "backward_values", "backward_scores"):
        constants["BETWEEN"] = BETWEEN
    return KernelPlan(
        name, tuple(tiles[:1] if alone else tiles), constants | {"CLASS": _class(call)}
    )


def step_positions(head: int) -> int:
    """Positions of a program in a decoding step, for values of a head size."""
    return 128 if head <= 64 else 64


def products(query: torch.Tensor) -> str:
    """Precision of products of float32, as torch's own setting says; other dtypes have one way
    only."""
    if query.dtype != torch.float32 or not query.is_cuda or torch.version.hip is not None:
        return "ieee"
    if torch.get_float32_matmul_precision() != "highest":
        return "tf32"
    return "tf32x3"  # three products of tf32 are as exact as one of float32


def _class(call: Call) -> str:
    """All that decides how a kernel is compiled, but for its sizes."""
    options = (call.mask, call.bias, call.protected, call.source, call.rows)
    shown = "".join("." if x is None else "x" if x.shape[-2] == 1 else "X" for x in options)
    rule = call.rule
    flags = f"{bool(call.softcap):d}{bool(call.dropout):d}{rule.renormalise:d}{rule.share_heads:d}"
    return f"{type(call.rule).__name__} {call.query.dtype} {shown} {flags}"
