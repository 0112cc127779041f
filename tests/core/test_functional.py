"""``dwindle.attention`` against plain attention and against its own parts."""

import math

import pytest
import torch
import torch.nn.functional as F

import dwindle
from dwindle import Dim, Identity, Log, Plain
from tests.core.made import RULES


def inputs(b=2, h=3, t=5, s=7, d=8, dv=None, dtype=torch.float64):
    make = lambda *shape: (2 * torch.randn(*shape, dtype=torch.float64)).to(dtype)  # noqa: E731
    return make(b, h, t, d), make(b, h, s, d), make(b, h, s, dv or d)


@pytest.mark.parametrize("rule", [Plain(), Dim(Identity())], ids=str)
@pytest.mark.parametrize("kind", ["none", "bool", "float", "row"])
def test_plain_equals_sdpa(rule, kind):
    q, k, v = inputs(dv=6)
    mask = {
        "none": None,
        "bool": torch.rand(2, 1, 1, 7) < 0.7,
        "float": torch.randn(2, 3, 5, 7, dtype=torch.float64),
        "row": torch.rand(1, 1, 5, 7) < 0.7,
    }[kind]
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3)
    context, coverage = dwindle.attention(q, k, v, rule=rule, mask=mask, scale=0.3)
    torch.testing.assert_close(context, expected)
    assert coverage.total.shape == (2, 3, 7)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_it_is_softmax_then_rule_then_values(rule):
    q, k, v = inputs()
    bias = torch.randn(1, 3, 5, 7, dtype=torch.float64)
    mask = torch.rand(2, 1, 1, 7) < 0.7
    scores = q @ k.transpose(-2, -1) / math.sqrt(8) + bias
    weights, after = rule(scores.masked_fill(~mask, -math.inf).softmax(-1))
    context, coverage = dwindle.attention(q, k, v, rule=rule, mask=mask, bias=bias)
    torch.testing.assert_close(context, weights @ v)
    torch.testing.assert_close(coverage.total, after.total)
    torch.testing.assert_close(coverage.peak, after.peak)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_one_call_equals_step_by_step(rule):
    q, k, v = inputs()
    whole, after = dwindle.attention(q, k, v, rule=rule)
    coverage, steps = None, []
    for t in range(5):
        context, coverage = dwindle.attention(
            q[:, :, t : t + 1], k, v, rule=rule, coverage=coverage
        )
        steps.append(context)
    torch.testing.assert_close(torch.cat(steps, dim=2), whole)
    torch.testing.assert_close(coverage.total, after.total)


def test_rows_that_may_attend_to_nothing_give_zero_and_a_finite_gradient():
    q, k, v = (x.requires_grad_() for x in inputs())
    mask = torch.ones(2, 1, 5, 7, dtype=torch.bool)
    mask[0, 0, 2] = False
    context, coverage = dwindle.attention(q, k, v, rule="dydim:log,power(0.5)", mask=mask)
    assert not context[0, :, 2].any()
    torch.testing.assert_close(
        coverage.total[0].sum(-1), torch.full((3,), 4.0, dtype=torch.float64)
    )
    context.sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v))


@pytest.mark.parametrize(("t", "s"), [(0, 7), (5, 0), (1, 1)])
def test_empty_target_and_empty_source(t, s):
    q, k, v = inputs(t=t, s=s)
    context, coverage = dwindle.attention(q, k, v, rule="dim:log")
    assert context.shape == (2, 3, t, 8)
    assert torch.isfinite(context).all()
    assert coverage.total.shape == (2, 3, s)


def test_dropout_thins_the_weights_but_not_the_coverage():
    q, k, v = inputs(t=50, s=50)
    v = torch.ones_like(v[..., :1])  # the context is then the sum of the weights
    clean, coverage = dwindle.attention(q, k, v, rule="dim:log")
    dropped, same = dwindle.attention(q, k, v, rule="dim:log", dropout=0.5)
    torch.testing.assert_close(same.total, coverage.total)
    assert not torch.allclose(dropped, clean)
    assert dropped.mean().item() == pytest.approx(clean.mean().item(), rel=0.1)


def test_protected_by_item_and_position():
    q, k, v = inputs()
    mask = torch.rand(2, 7) < 0.3
    one, _ = dwindle.attention(q, k, v, rule=Dim(Log()), protected=mask)
    other, _ = dwindle.attention(q, k, v, rule=Dim(Log()), protected=mask[:, None].expand(2, 3, 7))
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    q, k, v = inputs(t=40, s=60, dtype=dtype)
    exact, _ = dwindle.attention(q.double(), k.double(), v.double(), rule="dydim:log,power(0.5)")
    context, coverage = dwindle.attention(q, k, v, rule="dydim:log,power(0.5)")
    assert context.dtype == dtype
    assert coverage.total.dtype == torch.float32
    assert (context.double() - exact).norm() / exact.norm() < 0.02


def test_compiled_whole():
    q, k, v = inputs()
    compiled = torch.compile(dwindle.attention, fullgraph=True, backend="aot_eager")
    expected, after = dwindle.attention(q, k, v, rule="dydim:log,power(0.5)")
    context, coverage = compiled(q, k, v, rule=dwindle.rule("dydim:log,power(0.5)"))
    torch.testing.assert_close(context, expected)
    torch.testing.assert_close(coverage.total, after.total)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda q, k, v: (q[0], k, v, {}), "query must be"),
        (lambda q, k, v: (q, k[:1], v, {}), "do not fit"),
        (lambda q, k, v: (q, k, v[:, :, :3], {}), "do not fit"),
        (lambda q, k, v: (q[..., :4], k, v, {}), "do not fit"),
        (lambda q, k, v: (q, k.float(), v, {}), "key is torch.float32 but query is torch.float64"),
        (lambda q, k, v: (q, k, v, {"dropout": 1.5}), "dropout must be"),
        (lambda q, k, v: (q, k, v, {"rule": "dmi:log"}), "did you mean 'dim:log'"),
        (
            lambda q, k, v: (q, k, v, {"coverage": Plain()(torch.ones(1, 3, 1, 7))[1]}),
            "coverage has shape",
        ),
    ],
)
def test_bad_input(change, said):
    q, k, v, more = change(*inputs())
    with pytest.raises(ValueError, match=said):
        dwindle.attention(q, k, v, **{"rule": "dim:log", **more})
