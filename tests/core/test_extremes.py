"""Numbers and inputs at the edges: masks, scores and masses far out, and mistakes that get one
sentence."""

import math

import pytest
import torch

import dwindle
from dwindle import Coverage, Dim, Log
from dwindle.core.backends import cpu, eager, triton

needs_kernel = pytest.mark.skipif(not cpu.available(), reason="no C++ compiler here")
BACKENDS = [pytest.param("cpu", marks=needs_kernel), "chunked"]
RULE = "dydim:log,power(0.5)"


def inputs(t=5, s=600, dtype=torch.float32, heads=2):
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(2, heads, n, 8, generator=generator, dtype=torch.float64).to(dtype)
        for n in (t, s, s)
    ]


def both(backend, tensors, **settings):
    """Context, coverage and gradients of one backend, and of the eager twin in float64."""
    results = []
    for chosen, dtype in ((backend, tensors[0].dtype), ("eager", torch.float64)):
        leaves = [x.detach().to(dtype).requires_grad_() for x in tensors]
        given = {
            k: v.to(dtype) if getattr(v, "is_floating_point", bool)() else v
            for k, v in settings.items()
        }
        context, after = dwindle.attention(*leaves, backend=chosen, **given)
        (context.square().sum() + after.total.square().sum()).backward()
        results.append(
            [x.detach().double() for x in (context, *after, *(leaf.grad for leaf in leaves))]
        )
    return results


@pytest.mark.parametrize("rule", [RULE, f"{RULE}+share_heads+renormalise"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_causal_masks_and_padding_at_the_end(backend, rule):
    """Whole strips are hidden from whole blocks of rows."""
    q, k, v = inputs(t=300, s=300)
    causal = torch.ones(300, 300, dtype=torch.bool).tril().expand(2, 1, 300, 300)
    padded = torch.arange(300) < torch.tensor([300, 190])[:, None]
    for mask in (causal, padded[:, None, None], causal & padded[:, None, None]):
        for found, exact in zip(*both(backend, (q, k, v), rule=rule, mask=mask), strict=True):
            torch.testing.assert_close(found, exact, atol=1e-4, rtol=1e-3)


@needs_kernel
@pytest.mark.parametrize("rule", [RULE, f"{RULE}+share_heads+renormalise+protect(0,-1)"])
def test_memory_that_an_earlier_call_left_behind(rule):
    """The kernel keeps large blocks from call to call: what a call of nothing but NaN wrote there
    must not be read."""
    tensors = inputs(t=150, s=700)
    both("cpu", [torch.full_like(x, math.nan) for x in inputs(t=160, s=760)], rule=rule)
    for found, exact in zip(*both("cpu", tensors, rule=rule), strict=True):
        torch.testing.assert_close(found, exact, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("low", [-90.0, -100.0, -104.0, -3000.0])
@pytest.mark.parametrize("first", [256, 300, 590], ids="masked up to {}".format)
def test_true_scores_far_below_zero_beside_a_masked_chunk(backend, low, first):
    q, k, v = inputs()
    mask = torch.arange(600) >= first
    bias = torch.full((1, 1, 1, 600), low)
    for found, exact in zip(
        *both(backend, (q, k, v), rule=RULE, mask=mask, bias=bias), strict=True
    ):
        torch.testing.assert_close(found, exact, atol=2e-3, rtol=1e-2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_low_scores_by_long_keys_beside_a_masked_chunk(backend):
    """The masked chunk is short enough to need no maximum, the true one is not."""
    q, k, v = inputs()
    k[:, :, 256:] = -20 * q.mean(2, keepdim=True)
    q = q.mean(2, keepdim=True).expand_as(q).contiguous()
    mask = torch.arange(600) >= 256
    for found, exact in zip(
        *both(backend, (q, k, v), rule=RULE, mask=mask, scale=2.0), strict=True
    ):
        torch.testing.assert_close(found, exact, atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("lowest", [-1e9, None])
def test_rows_wholly_masked_by_low_numbers(backend, dtype, lowest):
    q, k, v = inputs(s=21, dtype=dtype)
    mask = torch.zeros(2, 1, 5, 21, dtype=dtype)
    mask[0, :, 2:4] = torch.finfo(dtype).min if lowest is None else lowest
    leaves = []
    for chosen in (backend, "eager"):
        own = [x.detach().requires_grad_() for x in (q, k, v)]
        context, _ = dwindle.attention(*own, rule=RULE, mask=mask, backend=chosen)
        context.square().sum().backward()
        leaves.append([context, *(x.grad for x in own)])
    for found, exact in zip(*leaves, strict=True):
        torch.testing.assert_close(found, exact, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("backend", [*BACKENDS, "eager"])
def test_inplace_from_no_coverage(backend):
    q, k, v = inputs(t=1, s=9)
    _, after = dwindle.attention(q, k, v, rule=RULE, backend=backend)
    own = Coverage.none(torch.empty(2, 2, 0, 9))
    for _ in range(2):
        dwindle.attention(q, k, v, rule=RULE, coverage=own, inplace=True, backend=backend)
    torch.testing.assert_close(own.total, 2 * after.total)
    torch.testing.assert_close(own.peak, after.peak)
    zero = torch.zeros(2, 2, 9)
    both = torch.zeros(2, 2, 2, 9)
    for shared in (
        Coverage(zero, zero),
        Coverage(zero, zero.view(2, 2, 9)),
        Coverage(zero, torch.zeros(1, 1, 9).expand(2, 2, 9)),
        Coverage(both.view(-1)[:36].view(2, 2, 9), both.view(-1)[9:45].view(2, 2, 9)),
    ):
        with pytest.raises(ValueError, match="memory of its own"):
            dwindle.attention(q, k, v, rule=RULE, coverage=shared, inplace=True, backend=backend)
    for total, peak in (both, torch.zeros(2, 2, 9, 2).unbind(-1)):  # side by side
        dwindle.attention(
            q, k, v, rule=RULE, coverage=Coverage(total, peak), inplace=True, backend=backend
        )
        torch.testing.assert_close(total, after.total)
        torch.testing.assert_close(peak, after.peak)


NAN_PLACES = {
    "key": lambda q, k, v: k[0, 0, 2].fill_(math.nan),
    "query": lambda q, k, v: q[0, 1, 1].fill_(math.nan),
    "infinite query": lambda q, k, v: q[0, 1, 1].fill_(math.inf),
}


@needs_kernel
@pytest.mark.parametrize("place", NAN_PLACES)
@pytest.mark.parametrize(
    "rule", ["plain", "dim:log", RULE, "dim:boxcox(0.5)+renormalise", f"{RULE}+share_heads"]
)
def test_nan_is_where_the_eager_twin_has_it(rule, place):
    """In context, total and peak: a kernel that loses it would hide attention that went wrong."""
    source = torch.tensor([[1, 1, 0, 1, 0, 1], [0, 1, 1, 0, 1, 1]], dtype=torch.bool)
    rows = torch.tensor([[0, 1, 1, 0, 1], [1, 0, 1, 1, 1]], dtype=torch.bool)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for where in ({}, {"source": source}, {"rows": rows}, {"source": source, "rows": rows}):
            q, k, v = (x.to(dtype) for x in inputs(t=5, s=7))
            NAN_PLACES[place](q, k, v)
            for before in (None, "total", "peak"):
                found = []
                for backend in ("eager", "cpu"):
                    shape = 2, 1 if "share_heads" in rule else 2, 6 if "source" in where else 7
                    coverage = Coverage(*(torch.zeros(shape, dtype=q.dtype) for _ in range(2)))
                    if before:
                        getattr(coverage, before)[1, 0, 1] = math.nan
                    context, after = dwindle.attention(
                        q, k, v, rule=rule, coverage=coverage, backend=backend, **where
                    )
                    found.append([x.isnan().tolist() for x in (context, *after)])
                assert found[0] == found[1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("positions", [0, 3, 9])
@pytest.mark.parametrize(
    "rule",
    ["dim:log", RULE, "dim:boxcox(0.5)+renormalise", "dim:log+share_heads", f"{RULE}+protect(0)"],
)
def test_a_source_of_nothing_leaves_attention_plain(backend, rule, positions):
    """Also where its mask has no positions at all."""
    leaves = []
    for chosen, named in ((backend, rule), ("eager", "plain")):
        q, k, v = (x.requires_grad_() for x in inputs(t=5, s=9))
        source = {} if named == "plain" else {"source": torch.zeros(2, positions, dtype=torch.bool)}
        context, coverage = dwindle.attention(q, k, v, rule=named, backend=chosen, **source)
        assert named == "plain" or not coverage.total.any()
        context.square().sum().backward()
        leaves.append([context, q.grad, k.grad, v.grad])
    for found, exact in zip(*leaves, strict=True):
        torch.testing.assert_close(found, exact, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("backend", [*BACKENDS, "eager"])
@pytest.mark.parametrize(
    "rule", [RULE, f"{RULE}+share_heads", "dim:log+share_heads", "plain+share_heads"]
)
def test_gradients_without_a_source(backend, rule):
    """No positions to attend to: contexts and gradients are zeros of the right shapes."""
    q, k, v = (x.requires_grad_() for x in inputs(t=5, s=0))
    context, coverage = dwindle.attention(q, k, v, rule=rule, backend=backend)
    (context.sum() + coverage.total.sum() + coverage.peak.sum()).backward()
    assert not context.any()
    for x in (q, k, v):
        assert x.grad is None or not x.grad.any()


@pytest.mark.parametrize("lead", [30.0, 90.0, 100.0, 110.0, 1000.0])
@pytest.mark.parametrize("backend", [None, "chunked", "eager"])
def test_a_protected_sink_that_leads_by_far(backend, lead):
    q, k, v = (x.requires_grad_() for x in inputs(s=9))
    bias = torch.zeros(1, 1, 1, 9)
    bias[..., 0] = lead
    protected = torch.arange(9)[None].expand(2, 9) == 0
    settings = {"rule": "training-free", "bias": bias, "protected": protected, "backend": backend}
    context, _ = dwindle.attention(q, k, v, **settings)
    context.square().sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v))
    if lead < 90:
        found, exact = both(
            backend, (q, k, v), **{k: v for k, v in settings.items() if k != "backend"}
        )
        torch.testing.assert_close(found[0], exact[0])


@pytest.mark.parametrize("backend", [*BACKENDS, "eager"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_scores_of_half_precision_are_float32(backend, dtype):
    q, k, v = inputs(t=40, s=90, dtype=dtype)
    exact = dwindle.attention(q.double(), k.double(), v.double(), rule=RULE, backend="eager")[1]
    coverage = dwindle.attention(q, k, v, rule=RULE, backend=backend)[1]
    assert coverage.total.dtype == torch.float32
    torch.testing.assert_close(coverage.total.double(), exact.total, atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("backend", [*BACKENDS, "eager"])
def test_float16_scores_beyond_its_largest_number(backend):
    q, k, v = inputs(s=9, dtype=torch.float16)
    q, k = q.abs() * 300, k.abs() * 300
    context, coverage = dwindle.attention(q, k, v, rule=RULE, scale=1.0, backend=backend)
    assert torch.isfinite(context).all()
    torch.testing.assert_close(coverage.total.sum(-1), torch.full((2, 2), 5.0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gradient_penalty_is_refused_and_not_dropped(backend):
    q, k, v = (x.requires_grad_() for x in inputs(s=9))
    context, _ = dwindle.attention(q, k, v, rule=RULE, backend=backend)
    (gradient,) = torch.autograd.grad(context.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match=r"second derivative|is not implemented"):
        (context.sum() + gradient.square().sum()).backward()


def test_a_gradient_penalty_on_the_eager_twin():
    q, k, v = (x.requires_grad_() for x in inputs(s=9, dtype=torch.float64))
    assert torch.autograd.gradgradcheck(
        lambda q, k, v: dwindle.attention(q, k, v, rule=RULE, backend="eager")[0],
        [x[:1, :1, :3] for x in (q, k, v)],
    )


class TestTransforms:
    """torch.func and forward mode, on whatever backend is taken: right, never silently zero."""

    @staticmethod
    def loss(q, k, v, **settings):
        context, after = dwindle.attention(q, k, v, rule=RULE, **settings)
        return context.square().sum() + after.total.square().sum()

    @pytest.mark.parametrize("masked", [False, True])
    def test_grad(self, masked):
        q, k, v = inputs(s=9, dtype=torch.float64)
        mask = torch.rand(2, 1, 1, 9) < 0.7 if masked else None
        found = torch.func.grad(self.loss, argnums=(0, 1, 2))(q, k, v, mask=mask)
        own = [x.requires_grad_() for x in (q, k, v)]
        self.loss(*own, mask=mask).backward()
        for gradient, x in zip(found, own, strict=True):
            torch.testing.assert_close(gradient, x.grad)

    def test_jvp_and_forward_mode(self):
        q, k, v = inputs(s=9, dtype=torch.float64)
        tangent = torch.randn_like(q)
        _, slope = torch.func.jvp(lambda q: self.loss(q, k, v), (q,), (tangent,))
        own = q.clone().requires_grad_()
        self.loss(own, k, v).backward()
        torch.testing.assert_close(slope, (own.grad * tangent).sum())
        with torch.autograd.forward_ad.dual_level():
            dual = self.loss(torch.autograd.forward_ad.make_dual(q, tangent), k, v)
            torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(dual).tangent, slope)

    def test_vmap(self):
        q, k, v = inputs(s=9, dtype=torch.float64)
        mask = torch.rand(2, 1, 1, 9) < 0.7
        many = torch.stack([q, 2 * q, -q])
        found = torch.func.vmap(lambda q: dwindle.attention(q, k, v, rule=RULE, mask=mask)[0])(many)
        for one, context in zip(many, found, strict=True):
            torch.testing.assert_close(
                context, dwindle.attention(one, k, v, rule=RULE, mask=mask)[0]
            )

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_a_kernel_that_is_asked_for_says_so(self, backend):
        q, k, v = inputs(s=9)
        with pytest.raises(ValueError, match="cannot look into it; try backend=None"):
            torch.func.grad(self.loss)(q, k, v, backend=backend)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"softcap": math.inf}, "softcap must be above 0 and finite"),
        ({"rule": 5}, "a rule is written like 'dim:log', not 5"),
        ({"rule": None}, "a rule is written like"),
        ({"rule": Log()}, "log is a function, not a rule: write 'dim:log'"),
        (
            {"source": torch.ones(2, 10, dtype=torch.bool)},
            r"source must be a bool mask of shape \(2, 9\)",
        ),
        ({"rows": torch.ones(2, 5)}, r"rows must be a bool mask of shape \(2, 5\)"),
        ({"rule": "temporal", "rows": torch.ones(2, 5, dtype=torch.bool)}, "works from scores"),
    ],
)
def test_one_sentence(more, said):
    with pytest.raises(ValueError, match=said):
        dwindle.attention(*inputs(s=9), **{"rule": "dim:log", **more})


@pytest.mark.parametrize("backend", [None, "chunked", "eager"])
def test_no_heads(backend):
    context, coverage = dwindle.attention(*inputs(s=9, heads=0), rule=RULE, backend=backend)
    assert context.shape == (2, 0, 5, 8)
    assert coverage.total.shape == (2, 0, 9)


def test_a_rule_as_text_compiled_whole():
    q, k, v = inputs(s=9)
    compiled = torch.compile(
        lambda q: dwindle.attention(q, k, v, rule=RULE)[0], fullgraph=True, backend="aot_eager"
    )
    torch.testing.assert_close(compiled(q), dwindle.attention(q, k, v, rule=RULE)[0])


class TestTritonStepsAside:
    """On a device where its kernels fail or give other numbers; the eager twin plays the kernels
    here."""

    def fault(self, monkeypatch, attention):
        monkeypatch.setattr(triton, "attention", attention)
        return triton._fault.__wrapped__(torch.device("cpu"), torch.float32)

    def test_not_where_they_agree(self, monkeypatch, capsys):
        assert self.fault(monkeypatch, eager.attention) is None
        assert not capsys.readouterr().err

    def test_where_they_differ(self, monkeypatch, capsys):
        def wrong(call):
            context, after = eager.attention(call)
            return context * 1.01, after

        assert "off by" in self.fault(monkeypatch, wrong)
        assert (
            capsys.readouterr().err.count("the Triton kernels for torch.float32 step aside on cpu")
            == 1
        )

    def test_where_they_fail(self, monkeypatch, capsys):
        def broken(call):
            raise RuntimeError("no kernel image\nand more")

        assert self.fault(monkeypatch, broken) == "they fail in a small case: no kernel image"
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_environment_names_the_backend(monkeypatch):
    monkeypatch.setenv("DWINDLE_BACKEND", "fast")
    with pytest.raises(ValueError, match="unknown backend 'fast'"):
        dwindle.attention(*inputs(s=9), rule=Dim(Log()))
