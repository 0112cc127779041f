"""The compiler's command lines for the library: the build at first use and that of a wheel share
them.

It imports neither torch nor dwindle: the build of a wheel has neither. It runs nothing.
"""

from collections.abc import Sequence
from pathlib import Path

SOURCES = ("attention_forward", "attention_backward", "additive", "recurrent")
"""The files that are compiled side by side; the first two take longest."""
COMPILE = (
    *("-std=c++20", "-fopenmp", "-fPIC", "-w"),
    *("-O3", "-fno-math-errno", "-fno-trapping-math"),
)
INSTRUCTIONS = {
    "avx512": (
        *("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma", "-mf16c"),
        "-mtune=skylake-avx512",
    ),
    "avx2": ("-mavx2", "-mfma", "-mf16c", "-mtune=haswell"),
}
"""The instruction sets of a wheel, by the names that torch has for them, the widest first. The
flags are those by which torch compiles its own code for each, so a processor that runs one runs
the other."""


def file_name(instructions: str) -> str:
    """The library of a wheel for one instruction set, beside the sources."""
    return f"kernel-{instructions}.so"


def compiled(
    compiler: str, folder: Path, flags: Sequence[str], source: Path, name: str
) -> list[str]:
    """Compile the source ``name`` into an object in ``folder``, where ``vocabulary.h`` is."""
    return [
        *(compiler, *COMPILE, *flags, f"-I{folder}", "-c"),
        *(str(source / f"{name}.cpp"), "-o", str(folder / f"{name}.o")),
    ]


def linked(compiler: str, folder: Path, libraries: Sequence[str], target: Path) -> list[str]:
    """Link the objects of ``folder``.

    If ``libraries`` does not name OpenMP, its functions stay undefined: ``build.py`` makes torch's
    runtime visible before it loads the library.
    """
    objects = [str(folder / f"{name}.o") for name in SOURCES]
    return [compiler, "-shared", *objects, *libraries, "-o", str(target)]
