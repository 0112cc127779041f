"""The Triton kernels as the compiler leaves them, for cards that are not here: ``make gpu-check``.

Compiles every kernel for every target and counts: tensor-core instructions, registers, spilled
bytes, shared memory, instructions of a tile. No kernel is run and no time is measured. All of it
takes an hour, so counts can be kept in a file: what did not change is not compiled again. It knows
the compiler's files; the numbers that the kernels compute are compared elsewhere
(tests/core/test_triton.py).
"""

import argparse
import hashlib
import importlib.util
import itertools
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from dwindle.core.backends import triton_kernels, triton_launch, triton_tiles
from dwindle.core.backends.triton import card_objection
from dwindle.core.backends.triton_tiles import FUSED, Tile
from dwindle.core.functional import checked_call
from dwindle.core.notation import rule as parsed
from dwindle.runfiles import whole

TARGETS = {
    "sm_75": GPUTarget("cuda", 75, 32),
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
_SHARED = {"sm_75": 64, "sm_80": 163, "sm_90": 227, "gfx942": 64}  # kB that one block may have
_SHARED_ALL = {"sm_75": 64, "sm_80": 164, "sm_90": 228, "gfx942": 64}  # kB of a processor
_THREADS = {"sm_75": 1024, "sm_80": 2048, "sm_90": 2048, "gfx942": 2048}
_TYPES = {
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.uint8: "u8",
    torch.bool: "i1",
}
_TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


@dataclass(frozen=True)
class Launch:
    """A kernel with the arguments that a call gave it, and the tiles that it may have (None: what
    the constants say)."""

    name: str
    arguments: tuple[Any, ...]
    constants: dict[str, Any]
    tiles: tuple[Tile | None, ...] = (None,)
    gradients: bool = True
    """False: it is started for a call without gradients."""


class Case(NamedTuple):
    """Call for which a kernel is compiled."""

    name: str
    """Rule and option."""
    dtype: str
    head: int
    target: str
    kernel: str


@dataclass(frozen=True)
class Compiled:
    """Counts from a compiled kernel."""

    name: str
    target: str
    tile: str
    registers: int
    spilled: int
    """Bytes a thread."""
    shared: int
    """Bytes a block."""
    threads: int
    tensor: int
    """Tensor-core instructions in the whole kernel."""
    scalar: int
    """Scalar multiplications with addition, likewise."""
    products: int
    """Number of products in its source, for which there must be tensor-core instructions."""
    loop: float
    """Instructions of the innermost loops, for each element of the tile."""
    depth: float
    """Multiplications on tensor cores in those loops, for each element of the tile."""
    failure: str = ""
    """Words of the compiler if it made no code; then all counts are 0."""

    @property
    def blocks(self) -> int:
        """Number of blocks that fit on one processor."""
        file = 65536 if self.target != "gfx942" else 4 * 512 * 64
        by_registers = file // (max(1, -(-self.registers // 8) * 8) * self.threads)
        by_memory = _SHARED_ALL[self.target] * 1024 // max(1, self.shared + 1024)
        return min(by_registers, by_memory, _THREADS[self.target] // self.threads)

    def faults(self) -> list[str]:
        """Reasons why it must not be shipped."""
        if self.failure:
            return [f"not compiled: {self.failure}"]
        found = []
        if self.spilled:
            found.append(f"{self.spilled} bytes spilled")
        if self.shared > _SHARED[self.target] * 1024:
            found.append(f"{self.shared} bytes of shared memory")
        if self.products and not self.tensor:
            found.append("no tensor cores")
        if self.products and self.blocks < 2 and self.target in ("sm_80", "sm_90"):
            found.append("one block to a processor")
        return found


def launches(
    rule: str,
    dtype: torch.dtype,
    head: int,
    options: dict[str, Any] | None = None,
    rows: int = 128,
    source: int = 1024,
    gradients: bool = True,
    target: str = "sm_80",
) -> list[Launch]:
    """The kernels of a call on a target, with their arguments."""
    found: list[Launch] = []
    make: dict[str, Any] = {"dtype": dtype, "device": "meta", "requires_grad": gradients}
    q, k, v = (torch.empty(4, 16, n, head, **make) for n in (rows, source, source))
    call = checked_call(q, k, v, rule=rule, **(options or {}))
    with _recorded(found, target):
        context, after = triton_launch.attention(call)
        if gradients:
            torch.autograd.backward((context, after.total), (context, after.total))
    return [replace(launch, gradients=gradients) for launch in found]


@contextmanager
def _recorded(found: list[Launch], target: str) -> Iterator[None]:
    """Kernels are written down instead of started, with the tiles of a target."""

    def note(kernel: Any, grid: Any, arguments: tuple[Any, ...], constants: dict[str, Any]) -> None:
        tiles: tuple[Tile | None, ...] = (None,)
        if hasattr(kernel, "base_fn"):  # Triton's own choice among several
            tiles = tuple(Tile(x.kwargs, x.num_warps, x.num_stages) for x in kernel.configs)
            kernel = kernel.base_fn
        found.append(Launch(kernel.__name__, arguments, constants, tiles))

    tiles: Any = triton_tiles
    launching: Any = triton_launch
    kept = tiles.launch, launching.launch, tiles.generation
    tiles.launch = launching.launch = note
    tiles.generation = lambda device: _generation(target)
    try:
        yield
    finally:
        tiles.launch, launching.launch, tiles.generation = kept


def compiled(
    launch: Launch,
    tile: Tile | None,
    target: str,
    known: dict[str, Any] | None = None,
    only_known: bool = False,
) -> Compiled:
    """Counts of a kernel compiled for a target with a tile (None: what it was started with), taken
    from ``known`` if it is there, else added to it (``only_known``: else a LookupError)."""
    function = getattr(triton_kernels, launch.name)
    constants = dict(launch.constants)
    options = {
        "num_warps": constants.pop("num_warps", 4),
        "num_stages": constants.pop("num_stages", 2),
    }
    if tile is not None:
        constants |= tile.sizes
        options = {"num_warps": tile.warps, "num_stages": tile.stages}
    if "CLASS" in constants:
        constants["CLASS"] = ""  # decides only which tile is tried
    arguments = [_for(target, launch.name, x) for x in launch.arguments]
    single = any(x.q.at.dtype == torch.float32 for x in arguments if hasattr(x, "q"))
    if single and "PRODUCTS" in constants and target in ("sm_80", "sm_90"):
        # with gradients only tf32 is taken (triton.card_objection)
        constants["PRODUCTS"] = "tf32" if launch.gradients else "tf32x3"
    source = _source(function, arguments, constants)
    key = hashlib.sha256(f"{source.hash()} {target} {options}".encode()).hexdigest()[:16]
    known = {} if known is None else known
    if key not in known and only_known:
        raise LookupError(f"{launch.name} for {target} was not compiled yet")
    if key not in known:
        sizes = constants["BLOCK"] * constants.get("ROWS", 1)
        try:
            binary = _built(source, TARGETS[target], options)
        except Exception as error:  # compilers raise anything
            lines = [line for line in str(error).splitlines() if any(map(str.isalpha, line))]
            said = lines[-1].strip() if lines else type(error).__name__
            found = asdict(_failed(launch.name, target, options["num_warps"], said))
        else:
            found = asdict(counted(binary, launch.name, target, sizes))
        shape = [
            f"{constants.get('ROWS', 1)} x {constants['BLOCK']}",
            f"{options['num_warps']} warps",
        ]
        stages = [f"{options['num_stages']} stages"] if "ROWS" in constants else []
        known[key] = found | {"tile": ", ".join(shape + stages)}
    return Compiled(**known[key])


def _failed(name: str, target: str, warps: int, said: str) -> Compiled:
    """A kernel of which the compiler made no code."""
    threads = warps * TARGETS[target].warp_size
    counts = dict.fromkeys(("registers", "spilled", "shared", "tensor", "scalar", "products"), 0)
    return Compiled(name, target, "", threads=threads, loop=0.0, depth=0.0, failure=said, **counts)


def _for(target: str, name: str, x: Any) -> Any:
    """An argument as the target gets it, without options that the kernel does not look at."""
    if not isinstance(x, triton_kernels.Problem):
        return x
    if name in ("norms", "step_scores"):
        x = x._replace(g1=None, g2=None, protected=None, source=None, rows=None, dropout=None)
    return x._replace(ptx=None) if target == "gfx942" else x


def build(
    function: Any, arguments: list[Any], constants: dict[str, Any], target: GPUTarget, options: Any
) -> Any:
    """A compiled kernel."""
    return _built(_source(function, arguments, constants), target, options)


def _built(source: ASTSource, target: GPUTarget, options: Any) -> Any:
    return triton.compile(source, target=target, options={**options, **FUSED})


def _source(function: Any, arguments: list[Any], constants: dict[str, Any]) -> ASTSource:
    """A kernel specialised on its arguments as Triton itself would at a call."""
    names = function.arg_names
    signature: dict[str, Any] = {}
    fixed: dict[Any, Any] = {}
    hints: dict[tuple[int, ...], Any] = {}
    for i, x in enumerate(arguments):
        signature[names[i]] = _typed(x, (i,), fixed, hints)
    for name, x in constants.items():
        signature[name] = "constexpr"
        fixed[(names.index(name),)] = x
    return ASTSource(fn=function, signature=signature, constexprs=fixed, attrs=hints)


def _typed(
    x: Any, path: tuple[int, ...], fixed: dict[Any, Any], hints: dict[tuple[int, ...], Any]
) -> Any:
    """The type of an argument; fills in its constant parts, and those that are multiples of 16."""
    if isinstance(x, tuple):
        parts = [_typed(y, (*path, i), fixed, hints) for i, y in enumerate(x)]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    if isinstance(x, Tensor):
        hints[path] = [["tt.divisibility", 16]]
        return "*" + _TYPES[x.dtype]
    if x is None or (isinstance(x, int) and x == 1):
        fixed[path] = x
        return "constexpr"
    if isinstance(x, float):
        return "fp32"
    if x % 16 == 0:
        hints[path] = [["tt.divisibility", 16]]
    return "i32"


def counted(binary: Any, name: str, target: str, elements: int) -> Compiled:
    """Counts of a compiled kernel whose tile has so many elements."""
    threads = binary.metadata.num_warps * TARGETS[target].warp_size
    products = binary.asm["ttir"].count("tt.dot ")
    if target == "gfx942":
        registers, spilled, code = _amd(binary.asm["amdgcn"])
    else:
        registers, spilled, code = _nvidia(binary.asm["cubin"])
    loop = [line for start, stop in _innermost(code) for line in code[start : stop + 1]]
    kinds = Counter(_kind(line) for line in code)
    each = threads / elements
    depth = (
        sum(_multiplications(line) for line in loop)
        / elements
        * (threads // TARGETS[target].warp_size)
    )
    return Compiled(
        name=name,
        target=target,
        tile=f"{elements} x {threads // 32} warps",
        registers=registers,
        spilled=spilled,
        shared=binary.metadata.shared,
        threads=threads,
        tensor=kinds["tensor"],
        scalar=kinds["fma"],
        products=products,
        loop=sum(not line.startswith(".") for line in loop) * each,
        depth=depth,
    )


def _nvidia(cubin: bytes) -> tuple[int, int, list[str]]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage = subprocess.run(
            [_TOOLS / "cuobjdump", "-res-usage", file.name],
            capture_output=True,
            text=True,
            check=True,
        )
        text = subprocess.run(
            [_TOOLS / "nvdisasm", "-c", file.name], capture_output=True, text=True, check=True
        ).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", usage.stdout)
    if found is None:
        raise OSError("cuobjdump printed no registers")
    code = []
    for line in text.splitlines():
        label = re.match(r"(\.L\w+):", line.strip())
        instruction = re.search(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][^;]*);", line)
        if label:
            code.append(label[1])
        elif instruction and not instruction[1].startswith("NOP"):
            code.append(instruction[1])
    spills = any(line.startswith(("STL", "LDL")) for line in code)  # a stack may also be empty
    return int(found[1]), int(found[2]) if spills else 0, code


def _amd(text: str) -> tuple[int, int, list[str]]:
    def number(name: str) -> int:
        found = re.search(rf"\.{name}:\s+(\d+)", text)
        return int(found[1]) if found else 0

    registers = number("vgpr_count")  # with those for sums (agpr_count): they are one file
    code = []
    for line in text.splitlines():
        label = re.match(r"(\.L\w+):", line)
        instruction = re.match(r"\t([a-z]\w+.*)", line)
        if label:
            code.append(label[1])
        elif instruction:
            code.append(instruction[1].upper().replace("S_CBRANCH", "BRA S_CBRANCH"))
    return registers, 4 * (number("vgpr_spill_count")), code


def _innermost(code: list[str]) -> list[tuple[int, int]]:
    """Loops that have tensor-core instructions, and no such loop inside."""
    labels = {line: i for i, line in enumerate(code) if line.startswith(".L")}
    loops = []
    for i, line in enumerate(code):
        goal = re.search(r"(\.L\w+)", line) if line.startswith("BRA") else None
        start = labels.get(goal[1], len(code)) if goal else len(code)
        if start < i and any(_kind(x) == "tensor" for x in code[start:i]):
            loops.append((start, i))
    return [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]


def _kind(line: str) -> str:
    name = line.split()[0].split(".")[0]
    if name in ("HMMA", "HGMMA", "IMMA", "DMMA") or name.startswith("V_MFMA"):
        return "tensor"
    return "fma" if name in ("FFMA", "HFMA2") or name.startswith(("V_FMA", "V_PK_FMA")) else "other"


def _multiplications(line: str) -> int:
    """Of a tensor-core instruction, by one warp."""
    name = line.split()[0]
    if found := re.match(r"HMMA\.(16816|1688|1684|884)\b", name):
        return {"16816": 16 * 8 * 16, "1688": 16 * 8 * 8, "1684": 16 * 8 * 4, "884": 8 * 8 * 4}[
            found[1]
        ]
    if found := re.match(r"HGMMA\.(\d+)x(\d+)x(\d+)", name):  # by four warps together
        return int(found[1]) * int(found[2]) * int(found[3]) // 4
    if found := re.match(r"V_MFMA_F32_(\d+)X(\d+)X(\d+)", name):
        return int(found[1]) * int(found[2]) * int(found[3])
    return 0


_RULES = ("plain", "dim:log", "dim:power(0.65)", "dim:boxcox(-1)", "dydim:log,power(0.5)")
_SHORT_RULES = ("dim:power(0.65)", "dydim:log,power(0.5)")


def cases(dtype: torch.dtype, short: bool) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Rules and options to compile, with a name each."""
    for rule in _SHORT_RULES if short else _RULES:
        yield rule, "", {}
    if short:
        return

    def flags(*size: int) -> Tensor:
        return torch.empty(*size, dtype=torch.bool, device="meta")

    rule = _SHORT_RULES[1]
    yield rule, "padding", {"mask": flags(4, 1, 1, 1024)}
    yield rule, "causal", {"mask": flags(4, 1, 128, 1024)}
    yield rule, "bias", {"bias": torch.empty(1, 16, 128, 1024, device="meta").requires_grad_()}
    yield rule, "softcap", {"softcap": 30.0}
    yield rule, "dropout", {"dropout": 0.1}
    yield rule, "protected", {"protected": flags(4, 1024)}
    yield (
        rule,
        "prompt",
        {"source": flags(4, 1000), "rows": flags(4, 128), "mask": flags(4, 1, 128, 1024)},
    )
    yield f"{rule}+detach_gate", "", {}
    yield f"{rule}+renormalise", "protected", {"protected": flags(4, 1024)}
    yield f"{rule}+share_heads", "", {}


def checked(
    targets: list[str],
    heads: list[int],
    dtypes: list[torch.dtype],
    short: bool,
    known: dict[str, Any] | None = None,
    only_known: bool = False,
) -> Iterator[tuple[Case, Compiled | None]]:
    """Every kernel, tile, case, dtype, head size and target; None for what is not known, where
    nothing is to be compiled."""
    for target, dtype, head in itertools.product(targets, dtypes, heads):
        if refused(target, dtype, head):
            continue
        for rule, option, given in cases(dtype, short):
            for launch in _all_launches(rule, dtype, head, target, given, short):
                name = f"{rule} {option}".strip()
                case = Case(name, _TYPES[dtype], head, target, launch.name)
                for tile in launch.tiles[:1] if short else launch.tiles:
                    try:
                        yield case, compiled(launch, tile, target, known, only_known)
                    except LookupError:
                        yield case, None


def refused(
    target: str,
    dtype: torch.dtype,
    head: int,
    exact: bool = False,
    gradients: bool = True,
    renormalise: bool = False,
) -> str | None:
    """Reason why the kernels do not take such a call on a target, or None."""
    if target == "gfx942":
        return None
    return card_objection(_generation(target), dtype, head, exact, gradients, renormalise)


def _generation(target: str) -> int:
    """As ``call.generation`` counts on such a card."""
    return 8 if target == "gfx942" else TARGETS[target].arch // 10


def _all_launches(
    rule: str, dtype: torch.dtype, head: int, target: str, given: dict[str, Any], short: bool
) -> list[Launch]:
    """Of a call with gradients; of one row, and in float32 of many, without."""
    made = partial(launches, rule, dtype, head, target=target)
    found = made(given)
    plain = {name: x.detach() if isinstance(x, Tensor) else x for name, x in given.items()}
    renormalise = parsed(rule).renormalise
    if dtype == torch.float32 and not refused(target, dtype, head, True, False, renormalise):
        found += made(plain, gradients=False)
    if not short:
        found += made(_one_row(plain), rows=1, gradients=False)
    return found


def _one_row(options: dict[str, Any]) -> dict[str, Any]:
    """The same options for a single row."""
    cut = {name: x[:, :, :1] if name in ("mask", "bias") else x for name, x in options.items()}
    return {name: x[:, :1] if name == "rows" else x for name, x in cut.items()}


def tutorial(path: Path, target: str, head: int) -> list[Compiled]:
    """Triton's own fused attention, both ways, from its tutorial 06-fused-attention.py."""
    text = path.read_text(encoding="utf-8").split("class _attention(")[0]
    driver = "triton.runtime.driver.active."
    arch = TARGETS[target].arch
    text = text.replace(driver + "get_active_torch_device()", "None")
    text = text.replace(driver + "get_current_target()", "TARGET").replace(
        "torch.cuda.get_device_capability()[0]", str(arch // 10)
    )
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder) / "tutorial.py"
        module.write_text(
            f"from dwindle.bench.compiled import TARGETS\nTARGET = TARGETS[{target!r}]\n" + text,
            encoding="utf-8",
        )
        spec = importlib.util.spec_from_file_location("tutorial", module)
        if spec is None or spec.loader is None:
            raise OSError(f"{path} cannot be read as a module")
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        half = torch.empty(4, 16, 1024, head, dtype=torch.float16, device="meta")
        single = torch.empty(4, 16, 1024, device="meta")
        forward = {
            "HEAD_DIM": head,
            "BLOCK_M": 128,
            "BLOCK_N": 64,
            "FP8_OUTPUT": False,
            "STAGE": 1,
            "warp_specialize": False,
        }
        forward["IS_HOPPER"] = arch == 90
        arguments = [0.5, single, 4, 16, half, half, half, half, 1024]
        function = vars(loaded)["_attn_fwd"]
        function = getattr(function, "fn", function)
        options = {"num_warps": 4 if head <= 64 else 8, "num_stages": 2}
        first = build(function, arguments, forward, TARGETS[target], options)
        sizes = {
            "BLOCK_M1": 32,
            "BLOCK_N1": 128,
            "BLOCK_M2": 128,
            "BLOCK_N2": 32,
            "BLK_SLICE_FACTOR": 2,
            "HEAD_DIM": head,
            "CAUSAL": False,
        }
        strides = [16 * 1024 * head, 1024 * head, head, 1]
        arguments = [
            half,
            half,
            half,
            0.5,
            half,
            half,
            half,
            half,
            single,
            single,
            *strides,
            16,
            1024,
        ]
        second = build(
            vars(loaded)["_attn_bwd"],
            arguments,
            sizes,
            TARGETS[target],
            {"num_warps": 4, "num_stages": 5},
        )
    return [
        counted(first, "tutorial forward", target, 128 * 64),
        counted(second, "tutorial backward", target, 128 * 32),
    ]


def row(case: Case, found: Compiled) -> str:
    """A line of the table."""
    numbers = [
        found.tensor,
        found.scalar,
        found.registers,
        found.spilled,
        found.shared,
        found.blocks,
    ]
    cells = [
        *(case.name, case.dtype, str(case.head), case.kernel, case.target, found.tile),
        *map(str, numbers),
        f"{found.depth:.0f}",
        f"{found.loop:.1f}",
    ]
    return "| " + " | ".join(cells) + " |"


_HEAD = (
    "| case | dtype | head | kernel | target | tile | tensor | fma | registers | spilled | shared "
    "| blocks | multiplications / element | instructions / element |\n|" + "---|" * 14
)


def summary(found: list[tuple[Case, Compiled | None]]) -> str:
    """One line for each kernel, dtype, head size and target, over all rules, options and tiles:
    the least or the most, whichever is worse."""
    groups: dict[tuple[str, str, int, str], list[Compiled | None]] = {}
    for case, x in found:
        groups.setdefault((case.target, case.dtype, case.head, case.kernel), []).append(x)
    lines = [
        "| target | dtype | head | kernel | compiled | tensor cores | registers | spilled | "
        "shared | blocks | instructions / element | faults |",
        "|" + "---|" * 12,
    ]
    for (target, dtype, head, name), every in groups.items():
        each = [x for x in every if x is not None]
        if not each:
            continue
        wrong = Counter(fault for x in each for fault in x.faults())
        tensor = "-" if not each[0].products else "all" if all(x.tensor for x in each) else "no"
        loops = [x.loop for x in each if x.loop]
        cells = [
            *(target, dtype, str(head), name, f"{len(each)} of {len(every)}", tensor),
            *(str(max(x.registers for x in each)), str(max(x.spilled for x in each))),
            *(str(max(x.shared for x in each)), str(min(x.blocks for x in each))),
            f"{min(loops):.1f} to {max(loops):.1f}" if loops else "-",
            "; ".join(f"{n} x {fault}" for fault, n in wrong.items()) or "none",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    done = sum(x is not None for _, x in found)
    faulty = sum(bool(x.faults()) for _, x in found if x is not None)
    told = f"{done} of {len(found)} compiled, {faulty} of them with faults."
    empty = [key for key, every in groups.items() if not any(every)]
    if empty:
        places = {f"{target} {dtype} {head}" for target, dtype, head, _ in empty}
        told += f" Kernels are missing of: {', '.join(sorted(places))}."
    return "\n".join([told, "", *lines])


def main() -> None:
    """Print the table; exit with 1 if a kernel spills, has a product without tensor cores, needs
    too much memory or leaves room for one block only."""
    parser = argparse.ArgumentParser(
        prog="python -m dwindle.bench.compiled", description=main.__doc__
    )
    parser.add_argument("--target", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--head", nargs="+", type=int, default=[64, 128])
    parser.add_argument(
        "--dtype", nargs="+", choices=["bf16", "fp16", "fp32"], default=["bf16", "fp16", "fp32"]
    )
    parser.add_argument("--short", action="store_true", help="two rules without options")
    parser.add_argument(
        "--known", type=Path, help="file of counts: what is in it is not compiled again"
    )
    parser.add_argument(
        "--only-known", action="store_true", help="compile nothing, tell what is in that file"
    )
    parser.add_argument(
        "--out", type=Path, help="file for the table of the worst of each kernel, in Markdown"
    )
    parser.add_argument(
        "--tutorial", type=Path, help="Triton's 06-fused-attention.py, to be set beside"
    )
    asked = parser.parse_args()
    if asked.tutorial and not asked.tutorial.is_file():
        parser.error(
            f"there is no file {asked.tutorial}: name a copy of Triton's tutorial "
            "06-fused-attention.py"
        )
    names = {name: dtype for dtype, name in _TYPES.items()}
    known = _read(asked.known)
    print(_HEAD)
    all_found, faults = [], []
    dtypes = [names[x] for x in asked.dtype]
    for case, found in checked(
        asked.target, asked.head, dtypes, asked.short, known, asked.only_known
    ):
        all_found.append((case, found))
        if found is None:
            continue
        print(row(case, found), flush=True)
        told = f"{' '.join(map(str, case))} {found.tile}"
        faults += [f"{told}: {fault}" for fault in found.faults()]
        if asked.known and not asked.only_known:
            whole.write_json(asked.known, known)
    for target in [x for x in asked.target if asked.tutorial and x in ("sm_80", "sm_90")]:
        for head in asked.head:
            for found in tutorial(asked.tutorial, target, head):
                case = Case("Triton's tutorial", "fp16", head, target, found.name)
                print(row(case, found), flush=True)
    if asked.out:
        asked.out.write_text(_PAGE + summary(all_found) + "\n", encoding="utf-8")
    done = sum(found is not None for _, found in all_found)
    print("\n".join(["", *faults, f"{done} of {len(all_found)} compiled, {len(faults)} faults"]))
    sys.exit(bool(faults))


def _read(file: Path | None) -> dict[str, Any]:
    """Counts that an earlier run has left."""
    if file is None or not file.exists():
        return {}
    known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return known


_PAGE = """# The Triton kernels as they are compiled

Written by `make gpu-check`, without a card: nothing here was run or timed. Each line is the worst
over all rules, options and tiles of a kernel: the most registers, spilled bytes a thread and bytes
of shared memory a block, the fewest blocks that fit on a processor. Instructions are those of the
innermost loop for each element (row x position) of a tile. What the columns mean and how the
kernels compare with Triton's own tutorial: [KERNEL.md](../docs/KERNEL.md#counted-not-timed).

"""


if __name__ == "__main__":
    main()
