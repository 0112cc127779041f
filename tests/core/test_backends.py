"""Every backend against the eager twin in float64: outputs, coverage, and all gradients."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import dwindle
from dwindle import Coverage, DyDim, Log, Power
from dwindle.core.backends import chunked, cpu, eager
from dwindle.core.backends.call import Call
from dwindle.core.backends.cpu import op, with_terms
from dwindle.core.backends.diminish import Space
from dwindle.core.backends.polynomial import even_terms, few_odd_terms, odd_terms, terms
from tests.core import backend_matrix as matrix

needs_kernel = pytest.mark.skipif(not cpu.available(), reason="no C++ compiler here")
BACKENDS = [pytest.param("cpu", marks=needs_kernel), "chunked"]
RULE = "dydim:log,power(0.5)"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rule", matrix.RULES)
@pytest.mark.parametrize("options", matrix.OPTIONS)
def test_matrix(backend, rule, options):
    for shape in matrix.SHAPES:
        for dtype in matrix.TOLERANCES:
            matrix.compare(backend, rule, shape, options, dtype)


@pytest.mark.parametrize("rows", [8, 61], ids="{} rows".format)
@pytest.mark.parametrize("rule", matrix.RULES)
@pytest.mark.parametrize("options", ["none", "row mask", "coverage"])
def test_many_tiles(monkeypatch, rows, rule, options):
    """Blocks of rows that make equal groups, and such that leave some over; one head, some heads,
    some items."""
    monkeypatch.setattr(chunked, "_ROWS", rows)
    monkeypatch.setattr(chunked, "_ELEMENTS", 2 * 9 * rows)
    for shape in ((2, 3, 3, 130, 9, 8, 5), (3, 4, 2, 30, 9, 4, 4)):
        matrix.compare("chunked", rule, shape, options, torch.float64)
    monkeypatch.setattr(chunked, "_ELEMENTS", 4 * 9 * rows)
    matrix.compare("chunked", rule, (5, 2, 2, 20, 9, 4, 4), options, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_tiles_are_handed_out_again(monkeypatch, dtype):
    """As many for many blocks as for one."""
    spaces = []
    monkeypatch.setattr(chunked, "Space", lambda: spaces.append(Space()) or spaces[-1])
    monkeypatch.setattr(chunked, "_ROWS", 8)
    monkeypatch.setattr(chunked, "_ELEMENTS", 8 * 9)
    for t in (8, 80):
        q, k, v = (torch.randn(2, 2, n, 4, dtype=dtype, requires_grad=True) for n in (t, 9, 9))
        dwindle.attention(q, k, v, rule=RULE, backend="chunked")[0].sum().backward()
    forward, backward, *many = (len(space._all) for space in spaces)
    assert many == [forward, backward]
    assert forward < backward < 20


@pytest.mark.slow
@needs_kernel
@pytest.mark.parametrize("size", [16, 64])
def test_vectors_of_other_machines(size, tmp_path):
    """SSE and NEON have 16 bytes, AVX-512 has 64."""
    run_matrix(str(size), XDG_CACHE_HOME=str(tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("clang++") is None, reason="clang is not installed")
def test_built_by_clang_beside_torchs_threads(tmp_path):
    try:
        run_matrix("32", CXX="clang++", XDG_CACHE_HOME=str(tmp_path), OMP_NUM_THREADS="2")
    except AssertionError as error:
        if "no CPU kernel" in str(error):
            pytest.skip("clang has no OpenMP here")
        raise


def run_matrix(argument, **environment):
    here = Path(__file__).parent
    path = os.pathsep.join(
        [str(Path(dwindle.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    done = subprocess.run(
        [sys.executable, str(here / "backend_matrix.py"), argument],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "agree"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "rule", ["plain", "dim:power(0.65)", RULE, f"{RULE}+renormalise+protect(1)"]
)
def test_gradcheck(backend, rule):
    make = lambda *shape: torch.randn(*shape, dtype=torch.float64, requires_grad=True)  # noqa: E731
    q, k, v, bias = make(1, 2, 3, 4), make(1, 1, 5, 4), make(1, 1, 5, 3), make(1, 2, 3, 5)
    total = torch.rand(1, 2, 5, dtype=torch.float64, requires_grad=True)
    peak = torch.full((1, 2, 5), 0.01, dtype=torch.float64, requires_grad=True)

    def run(q, k, v, bias, total, peak):
        context, after = dwindle.attention(
            q,
            k,
            v,
            rule=rule,
            bias=bias,
            coverage=Coverage(total, peak),
            softcap=5.0,
            backend=backend,
        )
        return context, *after

    assert torch.autograd.gradcheck(run, (q, k, v, bias, total, peak))


@pytest.mark.parametrize("backend", BACKENDS)
@given(cuts=st.lists(st.integers(1, 39), max_size=3), seed=st.integers(0, 1000))
def test_any_split_gives_the_same(backend, cuts, seed):
    q, k, v = matrix.tensors(seed, (1, 2, 1, 40, 21, 8, 8), torch.float32)
    whole, after = dwindle.attention(q, k, v, rule=RULE, backend=backend)
    coverage, parts = None, []
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 40], strict=True):
        context, coverage = dwindle.attention(
            q[:, :, start:stop], k, v, rule=RULE, coverage=coverage, backend=backend
        )
        parts.append(context)
    torch.testing.assert_close(torch.cat(parts, 2), whole, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(coverage.total, after.total, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backend", [*BACKENDS, "eager"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_step_in_place_is_the_step(backend, dtype):
    q, k, v = matrix.tensors(0, (4, 3, 3, 1, 65, 16, 16), dtype)
    before = Coverage(torch.rand(4, 3, 65), torch.rand(4, 3, 65))
    expected, after = dwindle.attention(q, k, v, rule=RULE, coverage=before, backend=backend)
    own = Coverage(before.total.clone(), before.peak.clone())
    context, same = dwindle.attention(
        q, k, v, rule=RULE, coverage=own, inplace=True, backend=backend
    )
    assert same.total is own.total
    assert same.peak is own.peak
    torch.testing.assert_close(context, expected)
    torch.testing.assert_close(own, after)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_with_float32_inside(backend, dtype):
    q, k, v = matrix.tensors(0, (2, 2, 2, 70, 90, 32, 32), dtype)
    exact, after = dwindle.attention(q.double(), k.double(), v.double(), rule=RULE, backend="eager")
    context, coverage = dwindle.attention(q, k, v, rule=RULE, backend=backend)
    assert context.dtype == dtype
    assert coverage.total.dtype == torch.float32
    assert (context.double() - exact).norm() / exact.norm() < 0.01
    torch.testing.assert_close(coverage.total.double(), after.total, atol=0.1, rtol=0.02)


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_is_fair_and_its_gradient_is_of_the_same_weights(backend):
    q, k, v = (
        x.requires_grad_() for x in matrix.tensors(0, (1, 2, 2, 64, 80, 8, 8), torch.float64)
    )
    # the context is then the sum of the weights
    ones = torch.ones(1, 2, 80, 1, dtype=torch.float64)
    clean, _ = dwindle.attention(q, k, ones, rule=RULE, backend=backend)
    thin = torch.stack(
        [
            dwindle.attention(q, k, ones, rule=RULE, dropout=0.3, backend=backend)[0]
            for _ in range(20)
        ]
    )
    assert thin.mean().item() == pytest.approx(clean.mean().item(), rel=0.02)
    assert not torch.equal(thin[0], thin[1])
    torch.manual_seed(5)
    context, _ = dwindle.attention(q, k, v, rule=RULE, dropout=0.3, backend=backend)
    context.sum().backward()
    moved = v.detach() + 1e-3 * v.grad
    torch.manual_seed(5)
    again, _ = dwindle.attention(q, k, moved, rule=RULE, dropout=0.3, backend=backend)
    # linear in v: exactly the squared length of the gradient
    gained = (again - context).sum().item()
    assert gained == pytest.approx(1e-3 * v.grad.square().sum().item(), rel=1e-6)


@pytest.mark.parametrize("backend", [*BACKENDS, None])
@pytest.mark.parametrize(("t", "s"), [(0, 7), (5, 0), (1, 1)])
def test_nothing_to_do(backend, t, s):
    q, k, v = (x.requires_grad_() for x in matrix.tensors(0, (2, 2, 1, t, s, 8, 6), torch.float32))
    context, coverage = dwindle.attention(q, k, v, rule=RULE, backend=backend)
    assert context.shape == (2, 2, t, 6)
    assert coverage.total.shape == (2, 2, s)
    context.sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v))


@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_that_lie_anyhow(backend):
    q, k, v = matrix.tensors(0, (2, 3, 3, 9, 20, 12, 12), torch.float32)
    expected, _ = dwindle.attention(q, k, v, rule=RULE, backend="eager")
    for axes in ((1, 2), (2, 3), (1, 3)):
        strange = [x.transpose(*axes).contiguous().transpose(*axes) for x in (q, k, v)]
        context, _ = dwindle.attention(*strange, rule=RULE, backend=backend)
        torch.testing.assert_close(context, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("large", [50.0, 3000.0])
@pytest.mark.parametrize("backend", BACKENDS)
def test_large_scores_neither_overflow_nor_vanish(backend, large):
    q, k, v = matrix.tensors(0, (1, 2, 2, 9, 700, 8, 8), torch.float32)
    expected, _ = dwindle.attention(
        q.double(), k.double(), v.double(), rule=RULE, scale=large, backend="eager"
    )
    context, _ = dwindle.attention(q, k, v, rule=RULE, scale=large, backend=backend)
    torch.testing.assert_close(context.double(), expected, atol=5e-3, rtol=1e-2)


OPTIONS = [
    "",
    "+renormalise",
    "+renormalise+protect(0,-1)",
    "+share_heads",
    "+share_heads+renormalise+protect(3)",
]


@needs_kernel
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("options", OPTIONS)
def test_threads_do_not_change_the_numbers(threads, options):
    # One head and three: whole units, teams, and threads without work.
    before = torch.get_num_threads()
    try:
        for heads in (1, 3):
            q, k, v = (
                x.requires_grad_()
                for x in matrix.tensors(0, (1, heads, 1, 33, 400, 16, 16), torch.float32)
            )
            torch.set_num_threads(threads)
            context, _ = dwindle.attention(q, k, v, rule=RULE + options, backend="cpu")
            context.square().sum().backward()
            twins = [x.detach().double().requires_grad_() for x in (q, k, v)]
            exact, _ = dwindle.attention(*twins, rule=RULE + options, backend="eager")
            exact.square().sum().backward()
            for x, twin in zip((q, k, v), twins, strict=True):
                torch.testing.assert_close(x.grad.double(), twin.grad, atol=1e-4, rtol=1e-3)
    finally:
        torch.set_num_threads(before)


@needs_kernel
@pytest.mark.parametrize("options", ["", "+renormalise+protect(0,-1)+share_heads"])
def test_long_sources_are_shared_by_a_team(options):
    q, k, v = matrix.tensors(0, (1, 2, 2, 128, 8200, 8, 8), torch.float32)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        context, coverage = dwindle.attention(q, k, v, rule=RULE + options, backend="cpu")
    finally:
        torch.set_num_threads(before)
    exact, after = dwindle.attention(
        q.double(), k.double(), v.double(), rule=RULE + options, backend="eager"
    )
    torch.testing.assert_close(context.double(), exact, atol=1e-5, rtol=1e-3)
    torch.testing.assert_close(coverage.total.double(), after.total, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("options", OPTIONS)
def test_dropout_with_every_option(backend, options):
    """The gradient is of the weights that were dropped: linear in v."""
    q, k, v = (
        x.requires_grad_() for x in matrix.tensors(0, (1, 2, 2, 20, 40, 8, 8), torch.float64)
    )
    settings = {"rule": RULE + options, "dropout": 0.3, "backend": backend}
    torch.manual_seed(5)
    context, _ = dwindle.attention(q, k, v, **settings)
    context.sum().backward()
    torch.manual_seed(5)
    again, _ = dwindle.attention(q, k, v.detach() + 1e-3 * v.grad, **settings)
    assert (again - context).sum().item() == pytest.approx(
        1e-3 * v.grad.square().sum().item(), rel=1e-6
    )
    step = 1e-6 * q.grad
    torch.manual_seed(5)
    moved, _ = dwindle.attention(q.detach() + step, k, v, **settings)
    assert (moved - context).sum().item() == pytest.approx((step * q.grad).sum().item(), rel=1e-4)


def operator_arguments(options=(0.0, 0.0)):
    q, k, v = (x.requires_grad_() for x in matrix.tensors(0, (1, 2, 1, 6, 9, 8, 8), torch.float32))
    bias = torch.randn(1, 2, 6, 9, requires_grad=True)
    mask = torch.rand(1, 1, 1, 9) < 0.8
    covered = 7 if any(options) else 9
    source = torch.ones(1, covered, dtype=torch.bool) if any(options) else None
    state = torch.rand(2, 1, 1 if options[1] else 2, covered)
    renormalise, share_heads = map(bool, options)
    rule = with_terms(DyDim(Log(), Power(0.5), renormalise=renormalise, share_heads=share_heads))
    return (q, k, v, bias, mask, None, source, None, *state, None, rule, 0.3, 0.0, 0.0, 1, True)


@needs_kernel
@pytest.mark.parametrize(
    "options", [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)], ids=["none", "renormalise", "and share_heads"]
)
def test_opcheck(options):
    torch.library.opcheck(op.attention, operator_arguments(options))
    with torch.no_grad():
        torch.library.opcheck(
            op.step,
            tuple(
                x.detach().clone() if isinstance(x, torch.Tensor) else x
                for x in operator_arguments(options)[:-1]
            ),
        )


@needs_kernel
def test_who_looks_on_sees_the_operators():
    """Without gradients the kernel is called past torch's dispatcher, unless somebody records."""
    q, k, v = matrix.tensors(0, (1, 2, 2, 1, 5, 8, 8), torch.float32)
    coverage = Coverage(torch.zeros(1, 2, 5), torch.zeros(1, 2, 5))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        dwindle.attention(q, k, v, rule=RULE, backend="cpu")
        dwindle.attention(q, k, v, rule=RULE, backend="cpu", coverage=coverage, inplace=True)
    seen = {event.name for event in profile.events()}
    assert {"dwindle::attention", "dwindle::attention_step"} <= seen
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(x) for x in (q, k, v)]
        context, after = dwindle.attention(*fakes, rule=RULE, backend="cpu")
    assert all(isinstance(x, FakeTensor) for x in (context, *after))


@needs_kernel
def test_a_second_derivative_is_refused():
    q, k, v = (x.requires_grad_() for x in matrix.tensors(0, (1, 2, 2, 3, 5, 8, 8), torch.float32))
    context, _ = dwindle.attention(q, k, v, rule=RULE, backend="cpu")
    (gradient,) = torch.autograd.grad(context.square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match=r"no second derivative: use backend='eager'"):
        gradient.sum().backward()


@needs_kernel
def test_a_step_in_place_is_noticed_by_autograd():
    q, k, v = matrix.tensors(0, (1, 2, 2, 1, 5, 8, 8), torch.float32)
    coverage = Coverage(torch.rand(1, 2, 5), torch.rand(1, 2, 5))
    factor = torch.ones(1, 2, 5, requires_grad=True)
    product = factor * coverage.total
    dwindle.attention(q, k, v, rule=RULE, coverage=coverage, inplace=True, backend="cpu")
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


@needs_kernel
def test_compiled_once_for_all_lengths():
    rule = dwindle.rule(RULE)
    step = lambda q, k, v: dwindle.attention(q, k, v, rule=rule)  # noqa: E731
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=True)
    for t, s in ((6, 9), (300, 17)):  # one block of rows, and two
        results = []
        for function in (step, compiled):
            inputs = [
                x.requires_grad_() for x in matrix.tensors(0, (2, 2, 2, t, s, 8, 8), torch.float32)
            ]
            context, coverage = function(*inputs)
            (context.square().sum() + coverage.total.square().sum()).backward()
            results.append([context, *coverage, *(x.grad for x in inputs)])
        torch.testing.assert_close(*results)


@needs_kernel
@pytest.mark.parametrize(
    "compiler", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
)
def test_compiled_whole_with_gradients(compiler):
    rule = dwindle.rule(RULE)

    def step(q, k, v):
        return dwindle.attention(q, k, v, rule=rule)[0]

    results = []
    for function in (step, torch.compile(step, fullgraph=True, backend=compiler)):
        inputs = [
            x.requires_grad_() for x in matrix.tensors(0, (2, 2, 2, 6, 9, 8, 8), torch.float32)
        ]
        context = function(*inputs)
        context.square().sum().backward()
        results.append([context, *(x.grad for x in inputs)])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("backend", BACKENDS)
def test_checkpointed(backend):
    results = []
    for again in (False, True):
        q, k, v = (
            x.requires_grad_() for x in matrix.tensors(0, (2, 2, 2, 40, 9, 8, 8), torch.float32)
        )
        run = lambda q, k, v: dwindle.attention(q, k, v, rule=RULE, dropout=0.2, backend=backend)[0]  # noqa: E731
        torch.manual_seed(3)
        context = (
            torch.utils.checkpoint.checkpoint(run, q, k, v, use_reentrant=False)
            if again
            else run(q, k, v)
        )
        context.square().sum().backward()
        results.append([context, q.grad, k.grad, v.grad])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.3, 0.65, 1.0])
def test_the_polynomial_is_exact_to_float32(p):
    x = torch.linspace(1e-6, 1, 5001, dtype=torch.float64)
    exact = torch.expm1(p * torch.log1p(x)) if p else torch.log1p(x)
    fitted = sum(c * x ** (k + 1) for k, c in enumerate(terms(p)))
    assert (fitted / exact - 1).abs().max() < 4e-8


@pytest.mark.parametrize("p", [-1e-9, -0.3, -1.0, -2.0, -2.7, -4.0, -6.5, -8.0])
def test_the_polynomial_below_the_logarithm_is_exact_to_float32(p):
    x = torch.linspace(1e-6, 1, 5001, dtype=torch.float64)
    v = x / (1 + x)
    h = 1 - sum(c * v ** (k + 1) for k, c in enumerate(terms(p)))
    assert (h**4 / (1 + x) ** p - 1).abs().max() < 4e-8
    lost = sum(c * v ** (k + 1) for k, c in enumerate(terms(p))) * (1 + h) * (1 + h**2)
    assert (lost / -torch.expm1(p * torch.log1p(x)) - 1).abs().max() < 4e-8


@pytest.mark.parametrize(("single", "exact_to"), [(True, 2.5e-7), (False, 1e-12)])
@pytest.mark.parametrize("p", [-8.0, -5.0, -2.0, -0.5, -1e-9, 0.0, 1e-9, 0.3, 0.65, 1.0])
def test_the_polynomials_of_tiles_are_exact_to_their_dtype(p, single, exact_to):
    z = torch.linspace(1e-3, 2 / 3, 5001, dtype=torch.float64)
    log = 2 * torch.atanh(z / 2)  # of (1 + z / 2) / (1 - z / 2)
    below = (1 - z / 2) ** p
    odd = below * torch.expm1(p * log) / p / z if p else log / z
    even = (below + (1 + z / 2) ** p) / 2
    for coefficients, exact in ((odd_terms(p, single), odd), (even_terms(p, single), even)):
        fitted = sum(c * z ** (2 * k) for k, c in enumerate(coefficients))
        assert (fitted / exact - 1).abs().max() < exact_to


@pytest.mark.parametrize("error", [1e-3, 1e-4, 1.5e-8])
@pytest.mark.parametrize("p", [0.0, 0.65, -1.0, -8.0])
def test_few_terms_are_within_the_error(p, error):
    z = torch.linspace(1e-3, 2 / 3, 5001, dtype=torch.float64)
    below = (1 - z / 2) ** p
    log = 2 * torch.atanh(z / 2)
    exact = below * torch.expm1(p * log) / p / z if p else log / z
    found = few_odd_terms(p, error)
    fitted = sum(c * z ** (2 * k) for k, c in enumerate(found))
    assert (fitted / exact - 1).abs().max() < max(1.01 * error, 3e-7)
    assert len(few_odd_terms(p, 1e-3)) <= len(found) <= len(odd_terms(p, single=True))


def test_without_a_compiler_many_weights_go_in_chunks_and_few_at_once(monkeypatch):
    monkeypatch.setattr(cpu, "available", lambda: False)
    taken = []
    for module in (chunked, eager):
        run = module.attention
        monkeypatch.setattr(
            module, "attention", lambda call, m=module, run=run: taken.append(m) or run(call)
        )
    for rows in (4, 70):
        q, k, v = matrix.tensors(0, (1, 2, 2, rows, 1000, 8, 8), torch.float32)
        dwindle.attention(q, k, v, rule=RULE)
    assert taken == [eager, chunked]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"backend": "cuda"}, "unknown backend 'cuda'"),
        ({"backend": "cpu", "rule": "temporal"}, "cannot do this"),
        ({"backend": "triton"}, "cannot do this"),
        ({"mask": torch.ones(3, 1, 1, 5, dtype=torch.bool)}, "mask has shape"),
        ({"mask": torch.ones(5, dtype=torch.int64)}, "mask is torch.int64"),
        ({"bias": torch.ones(2, 4, 5)}, "bias has shape"),
        ({"bias": torch.ones(5, device="meta")}, "bias is on meta"),
        ({"protected": torch.ones(1, 4, dtype=torch.bool)}, "protected has shape"),
        ({"protected": torch.ones(1, 5)}, "protected must be a bool mask"),
        ({"softcap": -1.0}, "softcap must be above 0"),
        ({"inplace": True}, "inplace needs a coverage"),
        ({"coverage": Coverage(torch.zeros(2, 2, 5), torch.zeros(2, 2, 5))}, "coverage has shape"),
        (
            {"coverage": Coverage(*(torch.zeros(1, 2, 5, device="meta"),) * 2)},
            "coverage is on meta",
        ),
    ],
)
def test_bad_input_is_refused_before_any_work(more, said, monkeypatch):
    monkeypatch.setattr(Call, "seed", lambda _: pytest.fail("work began"))
    q, k, v = matrix.tensors(0, (1, 2, 2, 3, 5, 8, 8), torch.float32)
    with pytest.raises(ValueError, match=said):
        dwindle.attention(q, k, v, **{"rule": "dim:log", **more})


def test_inplace_needs_no_gradient():
    q, k, v = matrix.tensors(0, (1, 2, 2, 1, 5, 8, 8), torch.float32)
    zero = Coverage(torch.zeros(1, 2, 5), torch.zeros(1, 2, 5))
    with pytest.raises(ValueError, match="no gradients"):
        dwindle.attention(q.requires_grad_(), k, v, rule=RULE, coverage=zero, inplace=True)


def test_heads_that_do_not_divide():
    q, _, _ = matrix.tensors(0, (1, 3, 3, 3, 5, 8, 8), torch.float32)
    _, k, v = matrix.tensors(0, (1, 2, 2, 3, 5, 8, 8), torch.float32)
    with pytest.raises(ValueError, match="H a multiple of Hk"):
        dwindle.attention(q, k, v, rule=RULE)
