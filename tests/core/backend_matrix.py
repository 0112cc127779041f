"""The comparison that every backend goes through.

``backend_matrix.py BACKEND`` runs a short one, ``backend_matrix.py 64`` one of the CPU kernel with such vectors.
"""

import sys

import torch

import dwindle
from dwindle import Coverage

RULES = [
    "plain",
    "dim:log(1.9)",
    "dim:power(0.65)",
    "dim:boxcox(0.000001)",
    "dydim:log,power(0.5)",
    "dydim:power(0.65),power(0.6)",
    "dydim:boxcox(0.5),log",
    "dydim:log(1.9),log(1.95)+detach_gate",
    "dydim:boxcox(0.2),identity",
    "dydim:log,power(0.5)+protect(0,-1)",
    "dim:boxcox(0.5)+renormalise",
    "dydim:log,power(0.5)+renormalise+protect(0,-1)",
    "dim:power(0.65)+share_heads",
    "dydim:log,power(0.5)+share_heads",
    "dydim:log,power(0.5)+share_heads+renormalise+protect(0,-1)",
]
# B, H, Hk, T, S, D, Dv: odd sizes, grouped heads, several blocks of rows, one row, a single source position.
SHAPES = [(2, 4, 2, 5, 7, 8, 8), (1, 2, 2, 300, 40, 16, 24), (1, 3, 1, 3, 33, 20, 7), (2, 1, 1, 1, 1, 1, 1)]
OPTIONS = ["none", "mask", "row mask", "float mask", "bias", "row bias", "softcap", "coverage", "protected"]
OPTIONS += ["prompt", "prompt, protected, coverage"]
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}

Shape = tuple[int, ...]


def tensors(seed: int, shape: Shape, dtype: torch.dtype) -> list[torch.Tensor]:
    """Query, key and value; their numbers do not depend on the dtype."""
    b, h, hk, t, s, d, dv = shape
    generator = torch.Generator().manual_seed(seed)
    sizes = ((b, h, t, d), (b, hk, s, d), (b, hk, s, dv))
    return [torch.randn(*size, generator=generator, dtype=torch.float64).mul(1.5).to(dtype) for size in sizes]


def options(name: str, rule: str, shape: Shape, dtype: torch.dtype) -> dict:
    b, h, _, t, s, _, _ = shape
    torch.manual_seed(1)
    real = lambda *size: torch.randn(*size, dtype=torch.float64).to(dtype)  # noqa: E731
    mask = torch.rand(b, 1, t, s) < 0.7
    mask[0, 0, t // 2] = False  # a row that may attend to nothing
    one = 1 if "share_heads" in rule else h
    covered = s - s // 3
    prompt = {
        "source": torch.rand(b, covered) < 0.8,
        "rows": torch.rand(b, t) < 0.7,
        "mask": torch.rand(b, 1, t, s) < 0.9,
    }
    return {
        "none": {},
        "mask": {"mask": torch.rand(b, 1, 1, s) < 0.7, "scale": 0.7},
        "row mask": {"mask": mask},
        "float mask": {"mask": real(b, 1, 1, s), "bias": real(1, h, 1, s).requires_grad_()},
        "bias": {"bias": real(1, h, t, s).requires_grad_(), "mask": torch.rand(s) < 0.7},
        "row bias": {"bias": real(b, 1, t, 1).requires_grad_() * torch.ones(1, 1, 1, s, dtype=dtype)},
        "softcap": {"softcap": 2.0},
        "coverage": {"coverage": Coverage(3 * torch.rand(b, s, one).mT, torch.rand(b, s, one).mT.mul(0.2))},  # strided
        "protected": {"protected": torch.rand(b, s) < 0.3},
        "prompt": prompt,
        "prompt, protected, coverage": {
            **prompt,
            "protected": torch.rand(b, h, covered) < 0.3,
            "coverage": Coverage(3 * torch.rand(b, one, covered), torch.rand(b, one, covered).mul(0.2)),
        },
    }[name]


def results(backend: str, rule: str, shape: Shape, name: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """Context, coverage, and the gradients of query, key, value, bias and coverage."""
    inputs = [x.requires_grad_() for x in tensors(0, shape, dtype)]
    chosen = options(name, rule, shape, dtype)
    more = [chosen["bias"]] if "bias" in chosen and chosen["bias"].is_leaf else []
    if "coverage" in chosen:
        more = [x.to(dtype).requires_grad_() for x in chosen["coverage"]]
        chosen["coverage"] = Coverage(*more)
    context, after = dwindle.attention(*inputs, rule=rule, backend=backend, **chosen)
    generator = torch.Generator().manual_seed(2)
    loss = 0
    for i, x in enumerate((context, *after)):
        weights = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(dtype)
        if i == 0 or ("coverage" in name and (i == 1 or rule.startswith("dydim"))):
            loss = loss + (x * weights).sum()
    loss.backward()
    gradients = [torch.zeros_like(x) if x.grad is None else x.grad for x in (*inputs, *more)]
    return [context.detach(), *(x.detach() for x in after), *gradients]


def compare(backend: str, rule: str, shape: Shape, name: str, dtype: torch.dtype) -> None:
    exact = results("eager", rule, shape, name, torch.float64)
    found = results(backend, rule, shape, name, dtype)
    for i, (x, y) in enumerate(zip(found, exact, strict=True)):
        error = (x.double() - y).abs().max() / y.abs().max().clamp_min(1e-6) if y.numel() else 0
        assert error < TOLERANCES[dtype], f"{backend} {rule} {shape} {name} {dtype}: result {i} is off by {error}"


def compare_some(backend: str) -> None:
    """A short matrix, for the Triton kernels: slow to run, and without prompts."""
    torch.set_num_threads(1)
    some = ["plain", "dim:power(0.65)", "dydim:log,power(0.5)", "dydim:boxcox(0.5),log+detach_gate"]
    for i, name in enumerate(name for name in OPTIONS if "prompt" not in name):
        compare(backend, some[i % len(some)], (1, 2, 1, 35, 40, 8, 5), name, torch.float32)
    for rule in some:
        compare(backend, rule, (1, 1, 1, 5, 7, 8, 8), "coverage", torch.float32)


def compare_vectors_of(size: int) -> None:
    """The CPU kernel with vectors of so many bytes, as other machines have them: the compiler makes them of ours."""
    from dwindle.core.backends.cpu import build

    build._FOR_KERNEL.append(f"-DDWINDLE_VECTOR_BYTES={size}")
    for shape in [*SHAPES, (1, 2, 2, 20, 300, 40, 72)]:
        for dtype in TOLERANCES:
            for name in OPTIONS:
                compare("cpu", "dydim:log,power(0.5)", shape, name, dtype)
    for half in (torch.bfloat16, torch.float16):
        q, k, v = tensors(0, (1, 2, 2, 20, 30, 8, 8), half)
        exact, _ = dwindle.attention(q.double(), k.double(), v.double(), rule="dim:log", backend="eager")
        context, _ = dwindle.attention(q, k, v, rule="dim:log", backend="cpu")
        assert (context.double() - exact).norm() / exact.norm() < 0.01


if __name__ == "__main__":
    compare_vectors_of(int(sys.argv[1])) if sys.argv[1].isdigit() else compare_some(sys.argv[1])
    print("agree")
