"""The comparison that every backend goes through.

``backend_matrix.py BACKEND`` runs a short one, ``backend_matrix.py BACKEND precision`` one of
rounding errors, ``backend_matrix.py 64`` one of the CPU kernel with such vectors.
"""

import itertools
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
    "dim:boxcox(-0.5)",
    "dim:boxcox(-8)",
    "dydim:boxcox(-2),boxcox(0.5)",
    "dydim:boxcox(-4),boxcox(-1)",
    "dydim:boxcox(-3.3),log+detach_gate",
    "dim:boxcox(-4)+renormalise",
    "dydim:boxcox(-2),boxcox(-0.5)+share_heads+protect(0,-1)",
    "dydim:log,power(0.5)+protect(0,-1)",
    "dim:boxcox(0.5)+renormalise",
    "dydim:log,power(0.5)+renormalise+protect(0,-1)",
    "dim:power(0.65)+share_heads",
    "dydim:log,power(0.5)+share_heads",
    "dydim:log,power(0.5)+share_heads+renormalise+protect(0,-1)",
]
# B, H, Hk, T, S, D, Dv: odd sizes, grouped heads, several blocks of rows, one row, a single source
# position.
SHAPES = [
    (2, 4, 2, 5, 7, 8, 8),
    (1, 2, 2, 300, 40, 16, 24),
    (1, 3, 1, 3, 33, 20, 7),
    (2, 1, 1, 1, 1, 1, 1),
]
OPTIONS = [
    "none",
    "mask",
    "row mask",
    "float mask",
    "bias",
    "row bias",
    "softcap",
    "coverage",
    "protected",
]
OPTIONS += ["prompt", "prompt, protected, coverage"]
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}

Shape = tuple[int, ...]


def tensors(seed: int, shape: Shape, dtype: torch.dtype) -> list[torch.Tensor]:
    """Query, key and value; their numbers do not depend on the dtype."""
    b, h, hk, t, s, d, dv = shape
    generator = torch.Generator().manual_seed(seed)
    sizes = ((b, h, t, d), (b, hk, s, d), (b, hk, s, dv))
    return [
        torch.randn(*size, generator=generator, dtype=torch.float64).mul(1.5).to(dtype)
        for size in sizes
    ]


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
        "row bias": {
            "bias": real(b, 1, t, 1).requires_grad_() * torch.ones(1, 1, 1, s, dtype=dtype)
        },
        "softcap": {"softcap": 2.0},
        # strided
        "coverage": {
            "coverage": Coverage(3 * torch.rand(b, s, one).mT, torch.rand(b, s, one).mT.mul(0.2))
        },
        "protected": {"protected": torch.rand(b, s) < 0.3},
        "prompt": prompt,
        "prompt, protected, coverage": {
            **prompt,
            "protected": torch.rand(b, h, covered) < 0.3,
            "coverage": Coverage(
                3 * torch.rand(b, one, covered), torch.rand(b, one, covered).mul(0.2)
            ),
        },
    }[name]


def results(
    backend: str, rule: str, shape: Shape, name: str, dtype: torch.dtype
) -> list[torch.Tensor]:
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
        assert error < TOLERANCES[dtype], (
            f"{backend} {rule} {shape} {name} {dtype}: result {i} is off by {error}"
        )


# rule, option, shape: slow to run, so that each one has several things to be wrong in
FOR_TRITON = [
    ("dydim:log,power(0.5)", "row mask", (1, 2, 1, 35, 70, 8, 5)),
    (
        "dydim:log,power(0.5)+renormalise+protect(0,-1)",
        "prompt, protected, coverage",
        (1, 2, 2, 20, 17, 8, 8),
    ),
    ("dydim:log,power(0.5)+share_heads", "coverage", (1, 2, 1, 20, 17, 8, 8)),
    ("dim:power(0.65)", "bias", (1, 2, 2, 17, 17, 8, 8)),
]


def compare_some(backend: str) -> None:
    """A short matrix, for the Triton kernels in their interpreter."""
    torch.set_num_threads(1)
    for rule, name, shape in FOR_TRITON:
        compare(backend, rule, shape, name, torch.float32)
    one_by_one(backend)
    compare_tiles(backend)
    far_below_zero(backend)


def far_below_zero(backend: str) -> None:
    """Where every score is far below zero, no position beyond the last of a tile outweighs them."""
    q, k, v = (torch.randn(1, 1, n, 8) for n in (5, 17, 17))
    bias = torch.full((1, 1, 5, 17), -1e9)
    for inputs, given in (((q, k, v), {"bias": bias}), ((q.abs() + 20, -k.abs() - 20, v), {})):
        query = inputs[0].requires_grad_()
        context, after = dwindle.attention(
            query, *inputs[1:], rule="dim:log", backend=backend, **given
        )
        right, covered = dwindle.attention(*inputs, rule="dim:log", backend="eager", **given)
        torch.testing.assert_close(context, right, atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(after.total, covered.total, atol=1e-3, rtol=1e-3)
        (gradient,) = torch.autograd.grad(context.sum(), query)
        assert gradient.isfinite().all()


def compare_tiles(backend: str) -> None:
    """Every tile of the forward pass, whose first choice alone the interpreter takes."""
    from dwindle.core.backends import triton_tiles
    from dwindle.core.functional import checked_call

    chosen = triton_tiles.choices
    tiles = {}
    for head, mask in itertools.product((64, 128), (None, torch.ones(1, 1, 1, 4).bool())):
        half = torch.empty(1, 1, 4, head, dtype=torch.bfloat16)
        call = checked_call(half, half, half, rule="dim:log", mask=mask)
        tiles |= {str(x.sizes): x for x in chosen("forward", call)}
    assert len(tiles) == 4
    for tile in tiles.values():
        triton_tiles.choices = lambda name, call, tile=tile: (
            [tile] if name == "forward" else chosen(name, call)
        )
        compare(backend, "dydim:log,power(0.5)", (1, 1, 1, 70, 70, 8, 8), "coverage", torch.float32)
    triton_tiles.choices = chosen


def compare_precision(backend: str) -> None:
    """In half precision, gradients are as near to float64 as SDPA's are (relative errors, the mean
    of some draws). The context is a little less near: SDPA rounds attention before it is divided by
    its sum, so that the largest is 1 and exact; a rule needs it divided."""
    torch.set_num_threads(1)
    teach_bfloat16()
    shape, limits = (1, 2, 2, 48, 64, 16, 16), torch.tensor([1.4, 1.05, 1.05, 1.1])
    for dtype in (torch.bfloat16, torch.float16):
        draws = [tensors(seed, shape, dtype) for seed in range(3)]
        sdpa = sum(errors("sdpa", "plain", draw) for draw in draws) / len(draws)
        for rule in ("plain", "dim:power(0.65)", "dydim:log,power(0.5)"):
            found = sum(errors(backend, rule, draw) for draw in draws) / len(draws)
            told = [f"{100 * x:.3f} % ({100 * y:.3f} %)" for x, y in zip(found, sdpa, strict=True)]
            print(f"{dtype} {rule}, of context, query, key, value (SDPA): {', '.join(told)}")
            assert (found <= limits * sdpa).all(), f"{rule} {dtype}: {found} is more than {sdpa}"


def teach_bfloat16() -> None:
    """Triton's interpreter keeps bfloat16 as bits. It multiplies those, and cuts numbers off to get
    them; a GPU multiplies values and rounds."""
    import numpy as np
    from triton.runtime import interpreter

    builder, tl = type(interpreter.interpreter_builder), interpreter.tl
    multiply, cast = builder.create_dot, builder.cast_impl

    def valued(x):
        if x.dtype.scalar.name != "bf16":
            return x
        return interpreter.TensorHandle(
            (x.data.astype(np.uint32) << 16).view(np.float32), tl.float32
        )

    def rounded(self, x, kind):
        if kind.scalar.name != "bf16" or x.dtype.scalar.name != "fp32":
            return cast(self, x, kind)
        bits = torch.tensor(x.data).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
        return interpreter.TensorHandle(bits, kind.scalar)

    builder.create_dot = lambda self, a, b, *rest: multiply(self, valued(a), valued(b), *rest)
    builder.cast_impl = builder.create_fp_trunc = rounded


def errors(backend: str, rule: str, draw: list[torch.Tensor]) -> torch.Tensor:
    """Errors of the context and the gradients of query, key and value, relative to those in
    float64 of the same numbers."""
    generator = torch.Generator().manual_seed(2)
    weights = torch.randn(draw[0].shape, generator=generator).to(draw[0].dtype)
    results = []
    for exact in (False, True):
        if backend == "sdpa" and not exact:
            results.append(sdpa_on_a_gpu(*draw, weights))
            continue
        inputs = [(x.double() if exact else x).clone().requires_grad_() for x in draw]
        name = "eager" if exact else backend
        context, _ = dwindle.attention(*inputs, rule=rule, backend=name)
        gradients = torch.autograd.grad(context, inputs, weights.to(context.dtype))
        results.append([x.detach() for x in (context, *gradients)])
    pairs = zip(*results, strict=True)
    return torch.stack([(x.double() - right).norm() / right.norm() for x, right in pairs])


def sdpa_on_a_gpu(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, weights: torch.Tensor
) -> list[torch.Tensor]:
    """Context and gradients as FlashAttention rounds them: operands of products to the dtype of the
    inputs, sums in float32. SDPA on a CPU does not round the attention."""
    dtype, scale = query.dtype, query.shape[-1] ** -0.5
    q, k, v, g = (x.float() for x in (query, key, value, weights))
    scores = q @ k.mT * scale
    raised = (scores - scores.amax(-1, keepdim=True)).exp()
    context = (raised.to(dtype).float() @ v / raised.sum(-1, keepdim=True)).to(dtype)
    attention = scores.softmax(-1)
    delta = (g * context.float()).sum(-1, keepdim=True)
    ds = (attention * (g @ v.mT - delta)).to(dtype).float()
    dv = attention.to(dtype).float().mT @ g
    return [context, *((x.to(dtype)) for x in (ds @ k * scale, ds.mT @ q * scale, dv))]


def compare_all(backend: str) -> None:
    """Every rule with every option."""
    torch.set_num_threads(1)
    for rule in [*RULES, "plain+share_heads"]:
        for name in OPTIONS:
            compare(backend, rule, (1, 2, 1, 35, 40, 8, 5), name, torch.float32)
    one_by_one(backend)


def one_by_one(backend: str) -> None:
    """Rows one by one, in place, give what all at once give."""
    rules = [
        "plain",
        "dydim:log,power(0.5)",
        "dydim:log,power(0.5)+share_heads+renormalise+protect(0,-1)",
    ]
    for rule in rules:
        q, k, v = tensors(3, (1, 2, 1, 3, 150, 8, 5), torch.float32)
        mask = torch.rand(1, 1, 1, 150) < 0.8
        settings = {"rule": rule, "mask": mask, "source": torch.rand(1, 140) < 0.8}
        whole, after = dwindle.attention(
            q.double(), k.double(), v.double(), backend="eager", **settings
        )
        coverage = Coverage(*torch.zeros(2, 1, 1 if "share" in rule else 2, 140))
        for t in range(3):
            row, moved = dwindle.attention(
                q[:, :, t : t + 1],
                k,
                v,
                coverage=coverage,
                inplace=True,
                backend=backend,
                **settings,
            )
            assert moved is coverage
            torch.testing.assert_close(row.double(), whole[:, :, t : t + 1], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(coverage.total.double(), after.total, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(coverage.peak.double(), after.peak, atol=1e-5, rtol=1e-4)


def compare_vectors_of(size: int) -> None:
    """The CPU kernel with vectors of so many bytes, as other machines have them: the compiler makes
    them of ours."""
    from dwindle.native import build

    build._carried = lambda: None  # what a wheel brings has the width of this machine
    build._NATIVE.append(f"-DDWINDLE_VECTOR_BYTES={size}")
    for shape in [*SHAPES, (1, 2, 2, 20, 300, 40, 72)]:
        for dtype in TOLERANCES:
            for name in OPTIONS:
                compare("cpu", "dydim:log,power(0.5)", shape, name, dtype)
    for half in (torch.bfloat16, torch.float16):
        q, k, v = tensors(0, (1, 2, 2, 20, 30, 8, 8), half)
        exact, _ = dwindle.attention(
            q.double(), k.double(), v.double(), rule="dim:log", backend="eager"
        )
        context, _ = dwindle.attention(q, k, v, rule="dim:log", backend="cpu")
        assert (context.double() - exact).norm() / exact.norm() < 0.01


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        compare_vectors_of(int(sys.argv[1]))
    elif sys.argv[2:] == ["all"]:
        compare_all(sys.argv[1])
    elif sys.argv[2:] == ["precision"]:
        compare_precision(sys.argv[1])
    else:
        compare_some(sys.argv[1])
    print("agree")
